#include "kernels/transport/launch.h"

#include <charconv>
#include <cstring>
#include <limits>

#include <fmt/format.h>

namespace penstock::transport {
namespace {

int number_in(const char* text) {
  if (text == nullptr) return 0;
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end && value > 0 ? value : 0;
}

/// TCP would do.
bool does_without_mpi(const LaunchRequest& request) {
  return request.transport == TransportChoice::tcp ||
         (wants_nccl(request) && request.bootstrap != BootstrapChoice::mpi);
}

std::string start_command(const LaunchRequest& request, const LaunchSigns& signs, int64_t ranks) {
  if (request.transport == TransportChoice::tcp ||
      (wants_nccl(request) && request.bootstrap == BootstrapChoice::tcp)) {
    if (signs.slurm_tasks > 0) return fmt::format("srun -n {} {}", ranks, request.command);
    if (signs.mpirun_processes == 0)
      return fmt::format("RANK=r WORLD_SIZE={} MASTER_ADDR=host MASTER_PORT=port {}, for each r from 0 to {}",
                         ranks, request.command, ranks - 1);
  }
  if (signs.slurm_tasks > 0)
    return fmt::format("srun {}-n {} {}", does_without_mpi(request) ? "" : "--mpi=pmix ", ranks,
                       request.command);
  return fmt::format("mpirun -n {} {}", ranks, request.command);
}

int checked_ranks(int64_t pipeline, int64_t data) {
  if (pipeline < 1 || data < 1 || pipeline > std::numeric_limits<int>::max() / data) {
    throw LaunchError(
        fmt::format("parallel.pipeline = {} and parallel.data = {} make no world of ranks; both are "
                    "at least 1, and their product fits 31 bits",
                    pipeline, data));
  }
  return static_cast<int>(pipeline * data);
}

LaunchPlan plan_inproc(const LaunchRequest& request) {
  const int64_t data = request.data.value_or(1);
  const int ranks = checked_ranks(request.pipeline, data);
  const bool nccl = request.transport == TransportChoice::nccl;
  return {nccl ? TransportKind::nccl : TransportKind::inproc, ranks, static_cast<int>(request.pipeline),
          static_cast<int>(data)};
}

void refuse_singletons(const LaunchRequest& request, const LaunchSigns& signs) {
  if (signs.slurm_step) {
    throw LaunchError(fmt::format(
        "Slurm started {} tasks, but srun did not connect them: MPI sees a world of 1 process. "
        "Start them with: {} "
        "(srun --mpi=list shows what this cluster offers); or set comm.transport = \"tcp\", which "
        "needs no MPI",
        signs.slurm_tasks, start_command(request, signs, signs.slurm_tasks)));
  }
  throw LaunchError(
      fmt::format("this Slurm job has {} tasks, but the program was started once, without srun. Start it "
                  "with: {}; or, to run "
                  "all ranks in this one process, set comm.transport = \"inproc\"",
                  signs.slurm_tasks, start_command(request, signs, signs.slurm_tasks)));
}

}  // namespace

LaunchSigns read_launch_signs(const std::function<const char*(const char*)>& variable) {
  LaunchSigns signs;
  signs.mpirun_processes = number_in(variable("OMPI_COMM_WORLD_SIZE"));
  signs.process_manager = variable("PMIX_RANK") != nullptr || variable("PMI_RANK") != nullptr;
  if (variable("RANK") != nullptr) signs.torch_processes = number_in(variable("WORLD_SIZE"));
  signs.slurm_tasks = number_in(variable("SLURM_NTASKS"));
  signs.slurm_step = variable("SLURM_STEP_ID") != nullptr;
  return signs;
}

bool wants_nccl(const LaunchRequest& request) {
  return request.transport == TransportChoice::nccl ||
         (request.transport == TransportChoice::automatic && request.cuda);
}

bool needs_mpi(const LaunchRequest& request, const LaunchSigns& signs, bool mpi_built_in) {
  if (request.transport == TransportChoice::tcp) return false;
  const bool launched = signs.mpirun_processes > 1 || signs.process_manager;
  bool asked = request.transport == TransportChoice::mpi;
  if (wants_nccl(request)) {
    if (request.bootstrap == BootstrapChoice::tcp) return false;
    if (request.bootstrap == BootstrapChoice::automatic) return launched && mpi_built_in;
    asked = true;
  }
  // srun without a PMI: libraries end the process, with a page about themselves, where they are initialised.
  const bool unconnected = !launched && signs.slurm_step && signs.slurm_tasks > 1;
  if (unconnected || (!asked && !launched)) return false;
  if (mpi_built_in) return true;
  if (request.transport == TransportChoice::inproc && signs.mpirun_processes <= 1 && signs.slurm_tasks <= 1)
    return false;
  throw LaunchError(
      fmt::format("{}, but this build has no MPI; install libopenmpi-dev, configure again and rebuild, or "
                  "start one process "
                  "without a launcher and let comm.transport = \"inproc\" run all ranks in it",
                  asked ? (wants_nccl(request) ? "comm.bootstrap = \"mpi\"" : "comm.transport = \"mpi\"")
                        : "a launcher started this process as one of several"));
}

bool needs_tcp(const LaunchRequest& request, const LaunchSigns& signs, bool mpi_built_in) {
  if (request.transport == TransportChoice::tcp) return true;
  if (!wants_nccl(request) || needs_mpi(request, signs, mpi_built_in)) return false;
  const bool several =
      signs.mpirun_processes > 1 || signs.torch_processes > 1 || (signs.slurm_step && signs.slurm_tasks > 1);
  return several || request.bootstrap == BootstrapChoice::tcp;
}

LaunchPlan plan_launch(const LaunchRequest& request, const LaunchSigns& signs, int processes) {
  if (request.transport == TransportChoice::inproc) {
    if (processes > 1) {
      throw LaunchError(
          fmt::format("comm.transport = \"inproc\" runs all ranks in one process, but {} were started. Start "
                      "one, with: {}; or "
                      "set comm.transport = \"auto\"",
                      processes, request.command));
    }
    if (signs.slurm_step && signs.slurm_tasks > 1) {
      throw LaunchError(
          fmt::format("comm.transport = \"inproc\" runs all ranks in one process, but srun started {}. Start "
                      "one, with: srun -n 1 "
                      "{}; or set comm.transport = \"auto\"",
                      signs.slurm_tasks, request.command));
    }
    return plan_inproc(request);
  }
  const TransportKind kind = wants_nccl(request)                         ? TransportKind::nccl
                             : request.transport == TransportChoice::tcp ? TransportKind::tcp
                                                                         : TransportKind::mpi;
  if (kind != TransportKind::tcp && processes <= 1 && signs.slurm_tasks > 1)
    refuse_singletons(request, signs);
  if (processes == 0) return plan_inproc(request);
  if (processes == 1 && request.transport == TransportChoice::automatic && request.pipeline == 1 &&
      request.data.value_or(1) == 1) {
    return plan_inproc(request);
  }
  const char* const alternative =
      processes == 1 ? "; or set comm.transport = \"inproc\" to run all ranks in this one process" : "";

  if (!request.data.has_value()) {
    if (request.pipeline >= 1 && processes % request.pipeline == 0) {
      return {kind, processes, static_cast<int>(request.pipeline),
              static_cast<int>(processes / request.pipeline)};
    }
    const int64_t wanted = (processes / checked_ranks(request.pipeline, 1) + 1) * request.pipeline;
    throw LaunchError(
        fmt::format("{} processes were started, which is no multiple of parallel.pipeline = {} "
                    "(parallel.data = \"auto\"). Start "
                    "it with, for instance: {}{}",
                    processes, request.pipeline, start_command(request, signs, wanted), alternative));
  }
  const int ranks = checked_ranks(request.pipeline, *request.data);
  if (ranks != processes) {
    throw LaunchError(
        fmt::format("the job needs parallel.pipeline · parallel.data = {} · {} = {} processes, and {} {} "
                    "started. Start it with: {}{}",
                    request.pipeline, *request.data, ranks, processes, processes == 1 ? "was" : "were",
                    start_command(request, signs, ranks), alternative));
  }
  return {kind, ranks, static_cast<int>(request.pipeline), static_cast<int>(*request.data)};
}

}  // namespace penstock::transport
