#pragma once

#include "kernels/device/device.h"
#include "kernels/math/math.h"

namespace penstock {

/// Bytes a second, read and written together, of an element-wise pass over fp32 tensors far larger than a
/// core's caches (a sum of two, 3 × 16 MiB), measured now: what element-wise work is bound by. Best of three,
/// about 0.05 s. Uses the workspace arena for the time being; call it before it is made.
double measure_memory_roof(Device& device, math::Math& math);

}  // namespace penstock
