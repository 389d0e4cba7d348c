#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/attention.h"

namespace penstock::cuda {

/// CUDA's kernels. The device must outlive what is made for it.
std::unique_ptr<math::Attention> make_attention(Device& device);

}  // namespace penstock::cuda
