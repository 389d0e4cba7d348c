#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/transport/inproc/link_model.h"
#include "kernels/transport/world.h"

namespace penstock::transport {

struct InprocOptions {
  /// Tests: messages are copied when they are sent, and senders never wait. Real clocks only.
  bool buffered = false;
  /// Free, or of as many ranks as the world.
  LinkModel links;
  /// Seconds on top of a link's latency, for the `message`-th message (from 0) from world rank `source` to
  /// `destination` in their communicator. A pure function, called from many threads; none: nothing.
  std::function<double(int source, int destination, uint32_t message)> delay;
  /// run_inproc: all ranks take turns on one thread (cpu::Fibers; elsewhere each has its own). For work that
  /// only waits, with inline streams: replays in virtual time.
  bool one_thread = false;
};

/// The worlds of `ranks` ranks that are threads of this process; each goes to its thread. CPU streams, all on
/// real clocks or all on virtual ones. Data is copied once, by the receiver's stream, from the sender's
/// memory.
///
/// On virtual clocks a message starts when sender and receiver are both there (and after the message before
/// it between the same two in the same receiving group) and takes what the link model says. The sender's
/// stream goes on when the link is free, the receiver's when the message is there; but a receive that
/// directly follows another may start as soon as that one's link is free. A group ends with its last message.
/// A collective starts when the last rank is there.
std::vector<std::unique_ptr<World>> make_inproc_worlds(int ranks, const InprocOptions& options = {});

/// Runs `body` once a rank, each in a thread of its own (unless told otherwise) with its own world, and waits
/// for all. If some throw,
/// the world is stopped, and the first exception that is no echo of another rank's is rethrown here. Bodies
/// that hold streams also hold an AbortOnUnwind.
void run_inproc(int ranks, const InprocOptions& options, const std::function<void(World&)>& body);

}  // namespace penstock::transport
