#include "trainer/commands/run_ranks.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "kernels/transport/inproc/inproc_world.h"
#include "kernels/transport/launch.h"
#include "kernels/transport/mpi_world.h"
#include "kernels/transport/nccl_world.h"
#include "kernels/transport/tcp_place.h"
#include "kernels/transport/tcp_world.h"
#include "trainer/commands/print_error.h"
#include "trainer/watchdog/start_limit.h"

namespace penstock::commands {

int run_ranks(const JobArguments& arguments, const std::string& command,
              const std::function<int(const Job&, transport::World&)>& body) {
  const Job asked = arguments.read(0);
  transport::LaunchRequest request;
  request.transport = asked.comm.transport;
  request.bootstrap = asked.comm.bootstrap;
  request.cuda = asked.parallel.device == DeviceChoice::cuda;
  request.pipeline = asked.parallel.pipeline;
  if (asked.parallel.data > 0) request.data = asked.parallel.data;
  request.command = command;
  constexpr double longest_start = 1e6;  // seconds; a job may say any number
  const std::chrono::milliseconds start(
      static_cast<int64_t>(1000 * std::min(asked.watchdog.start_s, longest_start)));
  const auto variable = [](const char* name) { return std::getenv(name); };
  const transport::LaunchSigns signs = transport::read_launch_signs(variable);
  if (transport::wants_nccl(request)) transport::set_nccl_variables(asked.comm.nccl);
  std::unique_ptr<transport::World> processes;
  if (transport::needs_mpi(request, signs, transport::mpi_built_in())) {
    const watchdog::StartLimit limit(std::chrono::duration<double>(start).count(),
                                     fmt::format("rank {}", launched_rank()),
                                     "MPI has not connected the ranks");
    processes = transport::make_mpi_world();
  } else if (transport::needs_tcp(request, signs, transport::mpi_built_in())) {
    processes = transport::make_tcp_world(
        transport::read_tcp_place(variable, asked.comm.address, static_cast<int>(asked.comm.port)),
        {.start = start});
  }
  const transport::LaunchPlan plan =
      transport::plan_launch(request, signs, processes ? processes->size() : 0);
  const Job job = arguments.read(plan.ranks);
  const auto on = [&](transport::World& hosts) {
    return plan.transport == transport::TransportKind::nccl
               ? transport::make_nccl_world(hosts, {.start = start})
               : nullptr;
  };
  if (processes && plan.transport != transport::TransportKind::inproc) {
    std::optional<transport::AbortOnUnwind> hosts_abort(*processes);
    std::unique_ptr<transport::World> gpus = on(*processes);
    std::optional<transport::AbortOnUnwind> abort(gpus ? *gpus : *processes);
    const bool first = processes->rank() == 0;
    const bool alone = processes->size() == 1;
    const int code = body(job, gpus ? *gpus : *processes);
    if (code == 0 || alone) return code;
    // Launchers end everybody when one process leaves with another code than 0, and some then report the code
    // of those they ended: rank 0 reports what all agreed on, once the others are gone.
    abort.reset();
    gpus.reset();
    hosts_abort.reset();
    processes.reset();
    if (!first) return 0;
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return code;
  }
  int code = 0;
  transport::run_inproc(plan.ranks, {}, [&](transport::World& hosts) {
    const std::unique_ptr<transport::World> gpus = on(hosts);
    transport::World& world = gpus ? *gpus : hosts;
    const transport::AbortOnUnwind abort(world);
    const int mine = body(job, world);
    if (world.rank() == 0) code = mine;
  });
  return code;
}

}  // namespace penstock::commands
