#include "trainer/shared_folder.h"

#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/room.h"

namespace penstock {

void check_shared_folder(transport::World& world, const std::string& checkpoints, uint64_t attempt) {
  std::string problem;
  try {
    checkpoint::check_reachable(checkpoints, attempt);
  } catch (const checkpoint::SaveError& error) {
    problem = fmt::format("rank {}: {}", world.rank(), error.what());
  }
  for (const std::string& each : world.gather(problem)) {
    if (!each.empty()) throw checkpoint::SaveError(each);
  }
}

}  // namespace penstock
