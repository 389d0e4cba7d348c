#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "kernels/transport/world.h"

namespace penstock::testing {

/// What a rank computes with.
struct RankBackend {
  std::unique_ptr<Device> device;
  math::Math math;
};

/// Of the kind that the binary was linked with. `world`, if there is one, learns of the device, where that is
/// needed.
RankBackend make_rank_backend(const DeviceOptions& options, transport::World* world);

}  // namespace penstock::testing
