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
  /// For the peers to leave a communicator at its end.
  std::chrono::milliseconds end{10'000};
};

/// Whether this build has NCCL (its header was found when it was configured). The library itself is opened at
/// its first call: a machine may lack it.
bool nccl_built_in();

/// Sets NCCL's own variables ("NCCL_DEBUG" → "WARN"), and NCCL_LAUNCH_ORDER_IMPLICIT = 1 where neither they
/// nor the environment say otherwise: then (from NCCL 2.26 on) a communicator's kernel starts after those
/// that this process enqueued before it on the same GPU, so that a GPU on which only some fit at once does
/// not begin with one whose peer holds its place with another. Once a process, before worlds are made, while
/// no other thread reads the environment.
void set_nccl_variables(const std::map<std::string, std::string>& variables);

/// Whether communicators of this process were given up after an error: NCCL's clean-up may go on in threads
/// that nobody waits for, so that the process leaves by std::_Exit.
bool nccl_given_up();

/// A world whose communicators are NCCL's, between GPUs; one rank a GPU. Hosts agree, and learn the names of
/// NCCL's communicators, through `hosts` (MPI, TCP or threads of one process), which outlives it. The rank's
/// device is attached before communicators are created.
///
/// Sums are in NCCL's order. A rank's operations run one after another, in the order in which they are
/// enqueued on a communicator, whatever the streams: two ranks that both send before they receive need one
/// exchange() for it. Sizes that differ between sender and receiver are not noticed. The first message
/// between two ranks, and the first collective, hold the host until the peers' hosts are there.
///
/// A thread looks for asynchronous errors and for a stop of `hosts` every tenth of a second. From an error or
/// a stop on, all streams that used the communicators fail with the reason, and NCCL is told to give up, by
/// threads that nobody waits for.
///
/// LaunchError if NCCL cannot be opened, or is not of this build's kind. Later DeviceErrors: NCCL's own, and
/// calls that do not end in time.
std::unique_ptr<World> make_nccl_world(World& hosts, const NcclOptions& options = {});

}  // namespace penstock::transport
