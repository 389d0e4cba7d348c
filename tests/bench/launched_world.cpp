#include "tests/bench/launched_world.h"

#include <cstdlib>

#include "kernels/transport/launch.h"
#include "kernels/transport/mpi_world.h"

namespace penstock::bench {

std::unique_ptr<transport::World> launched_world(const char* command, int ranks) {
  transport::LaunchRequest request;
  request.pipeline = ranks;
  request.data = 1;
  request.command = command;
  const auto signs = transport::read_launch_signs([](const char* name) { return std::getenv(name); });
  std::unique_ptr<transport::World> mpi;
  if (transport::needs_mpi(request, signs, transport::mpi_built_in())) mpi = transport::make_mpi_world();
  const transport::LaunchPlan plan = transport::plan_launch(request, signs, mpi ? mpi->size() : 0);
  return plan.transport == transport::TransportKind::mpi ? std::move(mpi) : nullptr;
}

}  // namespace penstock::bench
