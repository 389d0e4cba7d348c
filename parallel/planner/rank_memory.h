#pragma once

#include <cstdint>
#include <vector>

#include "parallel/planner/machine.h"
#include "parallel/planner/unit_sums.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/schedule.h"

namespace penstock::planner {

/// Who holds what: unit counts and recompute modes of the blocks, which are the stages of one copy of the
/// weights.
struct Layout {
  std::vector<int> units;            ///< (S)
  std::vector<Recompute> recompute;  ///< (S)

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Micro-batches that a stage holds at once: F to I, F to W, and I to W, each at least 1. The schedule alone
/// decides; deferred weight gradients count.
struct SlotCounts {
  int forward = 1;
  int kept = 1;
  int weight = 1;

  friend bool operator==(const SlotCounts&, const SlotCounts&) = default;
};

/// (all stages)
std::vector<SlotCounts> slot_counts(const schedule::Schedule& schedule);

/// Buffers of a rank for what crosses stage boundaries. A rank that hands activations on has at least one for
/// its output, one that hands gradients back at least one for those.
using BoundaryBuffers = std::array<int, schedule::buffer_pools>;

/// Bytes of a rank's device memory by what they are for.
struct RankMemory {
  int64_t resident = 0;   ///< weights, gradients, moments
  int64_t forward = 0;    ///< slots F → I, side band included
  int64_t kept = 0;       ///< slots F → W
  int64_t weight = 0;     ///< slots I → W
  int64_t buffers = 0;    ///< for stage boundaries and the tied weight's gradient
  int64_t workspace = 0;  ///< scratch of actions and products
  int64_t other = 0;      ///< ModelCosts::rank_bytes

  int64_t total() const { return resident + forward + kept + weight + buffers + workspace + other; }
  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

/// Of `rank`, which owns `stages` (ascending).
RankMemory rank_memory(const UnitSums& sums, const schedule::Schedule& schedule, const Layout& layout,
                       const std::vector<SlotCounts>& slots, const BoundaryBuffers& buffers, int rank);

/// Seconds that the gradients of units [begin, end) take to be reduced over replicas and copies, one of which
/// `rank` holds.
double reduction_time(const UnitSums& sums, const Machine& machine, const schedule::Schedule& schedule,
                      int begin, int end, int rank);

/// What a layout costs as the simulator reads it. Times of a stage, of each copy, are those of its units at
/// its rank's pace.
schedule::Costs layout_costs(const UnitSums& sums, const Machine& machine, const schedule::Schedule& schedule,
                             const Layout& layout);

}  // namespace penstock::planner
