#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/transport/world.h"

namespace penstock::transport {

/// How this process finds the others.
struct TcpPlace {
  int rank = 0;
  int ranks = 1;
  std::string address = "127.0.0.1";  ///< where rank 0 listens: a host's name or number
  int port = 0;                       ///< 1 … 65535
  /// The same in all processes of one start, another one in the next: who was left over is refused.
  std::string attempt;
};

struct TcpOptions {
  /// For all to be there, and for each answer of a peer at the start.
  std::chrono::milliseconds start{300'000};
  /// For the peers to say good-bye at the end.
  std::chrono::milliseconds end{10'000};
};

/// Meets the other processes at rank 0 and connects with each of them. LaunchError, with what to do, if they
/// are not there in time (StartTimeout), or if they are of another size, attempt or version.
///
/// Host memory and real clocks only. Messages are rendezvous: a receiver asks for what it awaits, and data
/// goes from the sender's memory to the receiver's. Collectives are made of messages and combine in rank
/// order, the same bits as inproc's. A peer that leaves without a good-bye, or stops its world, stops this
/// one. No thread spins: one sleeps in epoll, the others until it wakes them.
std::unique_ptr<World> make_tcp_world(const TcpPlace& place, const TcpOptions& options = {});

}  // namespace penstock::transport
