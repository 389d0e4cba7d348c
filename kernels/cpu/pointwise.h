#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/pointwise.h"

namespace penstock::cpu {

/// Vectorised loops, fp32, bf16 and fp16.
std::unique_ptr<math::Pointwise> make_pointwise(Device& device);

}  // namespace penstock::cpu
