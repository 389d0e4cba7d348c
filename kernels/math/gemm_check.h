#pragma once

#include <cstddef>

#include "kernels/device/tensor.h"
#include "kernels/math/gemm.h"
#include "kernels/math/support.h"

/// Checks of the Gemm family, shared by the implementations that compute on fp32, bf16 and fp16: UsageError
/// with names, types and shapes. `workspace_bytes`: what this call of the plan needs.
namespace penstock::math {

/// Whether a linear layer may have these sizes; types are the implementation's own affair.
Support supports_linear_sizes(const LinearShape& shape);

void check_linear_forward(const LinearShape& shape, const Tensor& x, const Tensor& w, const Tensor& bias,
                          const Tensor& y, const Tensor& workspace, size_t workspace_bytes);
void check_linear_backward_input(const LinearShape& shape, const Tensor& dy, const Tensor& w,
                                 const Tensor& dx, const Tensor& workspace, size_t workspace_bytes);
void check_linear_backward_weight(const LinearShape& shape, const Tensor& dy, const Tensor& x,
                                  const Tensor& dw, const Tensor& workspace, size_t workspace_bytes);
void check_linear_backward_bias(const LinearShape& shape, const Tensor& dy, const Tensor& dbias);

}  // namespace penstock::math
