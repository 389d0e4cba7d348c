#pragma once

#include <cstdint>

#include "kernels/device/tensor.h"
#include "kernels/math/pointwise.h"

namespace penstock::cpu {

/// The loop of Pointwise::dropout, arguments checked; T is the element type (float, bfloat16 or float16).
template <class T>
void run_dropout(const Tensor& x, const Tensor& samples, const math::StepScalars& scalars,
                 const math::DropoutSite& site, const Tensor& y);

}  // namespace penstock::cpu
