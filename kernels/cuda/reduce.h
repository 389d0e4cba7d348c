#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/reduce.h"

namespace penstock::cuda {

/// CUDA's kernels. The device must outlive what is made for it.
std::unique_ptr<math::Reduce> make_reduce(Device& device);

}  // namespace penstock::cuda
