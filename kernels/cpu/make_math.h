#pragma once

#include "kernels/device/device.h"
#include "kernels/math/math.h"

namespace penstock::cpu {

/// Every family. The device must outlive it.
math::Math make_math(Device& device);

}  // namespace penstock::cpu
