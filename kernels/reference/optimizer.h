#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/optimizer.h"

namespace penstock::reference {

/// Plain double loops, any float type: what every other implementation is compared with.
std::unique_ptr<math::Optimizer> make_optimizer(Device& device);

}  // namespace penstock::reference
