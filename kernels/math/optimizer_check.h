#pragma once

#include "kernels/device/tensor.h"
#include "kernels/math/step_scalars.h"

namespace penstock::math {

/// Argument check of Optimizer::adamw, shared by the implementations that compute on fp32: UsageError with
/// names, types and shapes.
void check_adamw(const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
                 const Tensor& moment2, const Tensor& copy, const StepScalars* scalars);

}  // namespace penstock::math
