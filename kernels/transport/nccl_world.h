#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "kernels/transport/world.h"

namespace penstock::transport {

struct NcclOptions {
  /// For all ranks to connect a communicator, and for a call that NCCL goes on with in the background.
  std::chrono::milliseconds start{300'000};
  /// NCCL's own variables ("NCCL_DEBUG" → "WARN"), set before it starts.
  std::map<std::string, std::string> variables;
};

/// A world whose communicators are NCCL's, between GPUs; one rank a GPU. Hosts agree, and learn the names of NCCL's
/// communicators, through `hosts` (MPI, TCP or threads of one process), which outlives it. `gpu`: CUDA's index of
/// this rank's device. Collective.
///
/// Sums are in NCCL's order. Messages on one communicator run in the order in which they are enqueued, whatever the
/// streams. A thread looks for asynchronous errors every tenth of a second; from an error or a stop on, NCCL's
/// communicators are aborted, and all streams that used them fail with the reason. Nothing waits for NCCL's clean-up
/// then.
///
/// DeviceError if NCCL cannot be opened, names an error, or does not answer in time.
std::unique_ptr<World> make_nccl_world(World& hosts, int gpu, const NcclOptions& options = {});

}  // namespace penstock::transport
