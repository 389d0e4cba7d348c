#include "kernels/transport/nccl_world.h"

#include "kernels/transport/launch.h"

namespace penstock::transport {

bool nccl_built_in() {
  return false;
}

void set_nccl_variables(const std::map<std::string, std::string>& /*variables*/) {}

bool nccl_given_up() {
  return false;
}

std::unique_ptr<World> make_nccl_world(World& /*hosts*/, const NcclOptions& /*options*/) {
  throw LaunchError(
      "transport nccl is not built in: nvcc or nccl.h was not found when this build was configured; install "
      "both, configure again and rebuild, or run all ranks in one process (comm.transport = \"inproc\")");
}

}  // namespace penstock::transport
