#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/norm.h"

namespace penstock::cuda {

/// CUDA's kernels. The device must outlive what is made for it.
std::unique_ptr<math::Norm> make_norm(Device& device);

}  // namespace penstock::cuda
