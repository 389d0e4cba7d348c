#pragma once

#include <cstdint>
#include <string>

#include "kernels/transport/world.h"

namespace penstock {

/// Collective, once rank 0 has taken `attempt` in the run's `checkpoints` folder: SaveError on rank 0, naming
/// rank and host, if a rank does not see that folder or may not write there.
void check_shared_folder(transport::World& world, const std::string& checkpoints, uint64_t attempt);

}  // namespace penstock
