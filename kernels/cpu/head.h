#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/head.h"

namespace penstock::cpu {

/// The processor's kernels. The device must outlive what is made for it.
std::unique_ptr<math::Head> make_head(Device& device);

}  // namespace penstock::cpu
