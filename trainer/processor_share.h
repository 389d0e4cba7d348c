#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/transport/world.h"

namespace penstock {

/// How many compute threads share how many processors, on the host where they are the most.
struct ProcessorShare {
  int ranks = 1;
  int threads = 1;     ///< of each rank
  int processors = 1;  ///< that they may run on, together

  /// Threads a processor.
  double load() const { return static_cast<double>(ranks) * threads / processors; }
  /// Times are those of an oversubscribed machine: ranks take each other's turns.
  bool crowded() const { return ranks * threads > processors; }
  /// "4 ranks x 2 threads share 2 processors".
  std::string text() const;
};

/// Where a rank runs: its host's name, and the processors that it is allowed, by number.
struct RankSeat {
  std::string host;
  std::vector<int> processors;
};

/// The most crowded host; or the most crowded rank, where ranks are bound to processors of their own. At
/// least one seat.
ProcessorShare most_crowded(const std::vector<RankSeat>& seats, int threads);
/// Of a world's ranks, by their hosts and affinities. Collective, the same on all ranks.
ProcessorShare processor_share(int64_t threads, transport::World& world);
/// Of as many ranks if they ran where this process may.
ProcessorShare processor_share_here(int64_t ranks, int64_t threads);

}  // namespace penstock
