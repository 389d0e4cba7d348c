#include "trainer/commands/run_ranks.h"

#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>

#include "kernels/transport/inproc/inproc_world.h"
#include "kernels/transport/launch.h"
#include "kernels/transport/mpi_world.h"

namespace penstock::commands {

int run_ranks(const JobArguments& arguments, const std::string& command,
              const std::function<int(const Job&, transport::World&)>& body) {
  const Job asked = arguments.read(0);
  transport::LaunchRequest request;
  request.transport = asked.comm.transport;
  request.pipeline = asked.parallel.pipeline;
  if (asked.parallel.data > 0) request.data = asked.parallel.data;
  request.command = command;
  const transport::LaunchSigns signs =
      transport::read_launch_signs([](const char* name) { return std::getenv(name); });
  std::unique_ptr<transport::World> mpi;
  if (transport::needs_mpi(request, signs, transport::mpi_built_in())) mpi = transport::make_mpi_world();
  const transport::LaunchPlan plan = transport::plan_launch(request, signs, mpi ? mpi->size() : 0);
  const Job job = arguments.read(plan.ranks);
  if (plan.transport == transport::TransportKind::mpi) {
    const transport::AbortOnUnwind abort(*mpi);
    return body(job, *mpi);
  }
  int code = 0;
  transport::run_inproc(plan.ranks, {}, [&](transport::World& world) {
    const transport::AbortOnUnwind abort(world);
    const int mine = body(job, world);
    if (world.rank() == 0) code = mine;
  });
  return code;
}

int launched_rank() {
  for (const char* name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    const std::string_view digits(text);
    int rank = 0;
    std::from_chars(digits.begin(), digits.end(), rank);
    return rank;
  }
  return 0;
}

}  // namespace penstock::commands
