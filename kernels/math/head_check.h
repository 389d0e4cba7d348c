#pragma once

#include <cstddef>

#include "kernels/device/tensor.h"
#include "kernels/math/head.h"
#include "kernels/math/step_scalars.h"
#include "kernels/math/support.h"

/// Checks of the Head family, shared by the implementations that compute on fp32, bf16 and fp16: UsageError
/// with names, types and shapes. `workspace_bytes`: the plan's.
namespace penstock::math {

/// Whether a head may have these sizes; types are the implementation's own affair.
Support supports_head_sizes(const HeadShape& shape);

void check_head_loss(const HeadShape& shape, const Tensor& x, const Tensor& w, const Tensor& targets,
                     const Tensor& losses, const Tensor& workspace, size_t workspace_bytes);
void check_head_loss_and_backward(const HeadShape& shape, const Tensor& x, const Tensor& w,
                                  const Tensor& targets, const StepScalars* scalars, const Tensor& losses,
                                  const Tensor& dx, const Tensor& dw, const Tensor& workspace,
                                  size_t workspace_bytes);
void check_head_logits(const HeadShape& shape, const Tensor& x, const Tensor& w, const Tensor& logits,
                       const Tensor& workspace, size_t workspace_bytes);

}  // namespace penstock::math
