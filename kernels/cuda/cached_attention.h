#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/cached_attention.h"

namespace penstock::cuda {

/// CUDA's kernels. The device must outlive what is made for it.
std::unique_ptr<math::CachedAttention> make_cached_attention(Device& device);

}  // namespace penstock::cuda
