#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/attention.h"

namespace penstock::reference {

/// Plain loops in double, which the other implementations are compared with; also on fp64 tensors.
std::unique_ptr<math::Attention> make_attention(Device& device);

}  // namespace penstock::reference
