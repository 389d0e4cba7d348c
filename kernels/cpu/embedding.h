#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/embedding.h"

namespace penstock::cpu {

/// The processor's kernels. The device must outlive what is made for it.
std::unique_ptr<math::Embedding> make_embedding(Device& device);

}  // namespace penstock::cpu
