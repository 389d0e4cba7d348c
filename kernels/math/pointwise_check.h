#pragma once

#include <cstdint>

#include "kernels/device/tensor.h"
#include "kernels/math/pointwise.h"

/// Argument checks of the Pointwise family, shared by its implementations: UsageError with names, types and
/// shapes. fp64 tensors pass (the reference computes on them).
namespace penstock::math {

void check_gelu_forward(const Tensor& x, const Tensor& y);
void check_gelu_backward(const Tensor& dy, const Tensor& x, const Tensor& dx);
void check_swiglu_forward(const Tensor& gate_up, const Tensor& y);
void check_swiglu_backward(const Tensor& dy, const Tensor& gate_up, const Tensor& dgate_up);
void check_add(const Tensor& a, const Tensor& b, const Tensor& y);
void check_convert(const Tensor& src, const Tensor& dst);
void check_rope(const Tensor& qkv, const Tensor& positions, const Tensor& table, int64_t rotated_heads,
                int64_t head_dim);
void check_dropout(const Tensor& x, const Tensor& samples, const StepScalars* scalars,
                   const DropoutSite& site, const Tensor& y);

}  // namespace penstock::math
