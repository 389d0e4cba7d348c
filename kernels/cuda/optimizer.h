#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/optimizer.h"

namespace penstock::cuda {

/// CUDA's kernels. The device must outlive what is made for it.
std::unique_ptr<math::Optimizer> make_optimizer(Device& device);

}  // namespace penstock::cuda
