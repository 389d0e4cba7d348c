#pragma once

#include "kernels/device/device.h"
#include "kernels/math/math.h"

namespace penstock {

/// FLOP/s of a large matrix product (1536 cubed, in `dtype`) on this device, measured now: the denominator of
/// matmul_share. Best of three, about 0.1 s. Uses the workspace arena for the time being; call it before it
/// is made.
double measure_matmul_roof(Device& device, math::Math& math, DType dtype);

}  // namespace penstock
