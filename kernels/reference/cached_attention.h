#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/cached_attention.h"

namespace penstock::reference {

/// Plain loops in double, which the other implementations are compared with.
std::unique_ptr<math::CachedAttention> make_cached_attention(Device& device);

}  // namespace penstock::reference
