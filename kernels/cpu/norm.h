#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/norm.h"

namespace penstock::cpu {

/// Vectorised loops over rows; fp32, bf16 and fp16, any number of channels.
std::unique_ptr<math::Norm> make_norm(Device& device);

}  // namespace penstock::cpu
