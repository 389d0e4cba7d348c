#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/embedding.h"

namespace penstock::cuda {

/// CUDA's kernels. The device must outlive what is made for it.
std::unique_ptr<math::Embedding> make_embedding(Device& device);

}  // namespace penstock::cuda
