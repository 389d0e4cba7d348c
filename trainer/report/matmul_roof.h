#pragma once

#include "kernels/device/device.h"
#include "kernels/math/math.h"

namespace penstock {

/// The product whose rate is measured: 1536 cubed.
constexpr math::LinearShape matmul_roof_shape(DType dtype) {
  return {.tokens = 1536, .in = 1536, .out = 1536, .dtype = dtype};
}

/// FLOP/s of a large matrix product (matmul_roof_shape) on this device, measured now: the denominator of
/// matmul_share. Best of three, about 0.1 s. Uses the workspace arena for the time being; call it before it
/// is made.
double measure_matmul_roof(Device& device, math::Math& math, DType dtype);

}  // namespace penstock
