#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/pointwise.h"

namespace penstock::cuda {

/// CUDA's kernels. The device must outlive what is made for it.
std::unique_ptr<math::Pointwise> make_pointwise(Device& device);

}  // namespace penstock::cuda
