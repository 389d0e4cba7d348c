#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/attention.h"

namespace penstock::cpu {

/// Flash attention in tiles of 64 queries by 64 keys; fp32, bf16 and fp16, any head_dim. Products and softmax
/// are fp32. The workspace holds a set of tiles for each of the device's threads.
std::unique_ptr<math::Attention> make_attention(Device& device);

}  // namespace penstock::cpu
