#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/cached_attention.h"

namespace penstock::cpu {

/// fp32, bf16 and fp16, any head_dim. Rows that are whole tiles of one text take the tiles of attention.h;
/// others pass the keys of their slot once, head by head.
std::unique_ptr<math::CachedAttention> make_cached_attention(Device& device);

}  // namespace penstock::cpu
