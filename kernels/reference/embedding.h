#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/embedding.h"

namespace penstock::reference {

/// Plain double loops, any float type: what every other implementation is compared with.
std::unique_ptr<math::Embedding> make_embedding(Device& device);

}  // namespace penstock::reference
