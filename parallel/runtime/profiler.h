#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "kernels/transport/world.h"
#include "model/rank_config.h"
#include "parallel/planner/profile.h"
#include "parallel/runtime/gradient_reducer.h"
#include "parallel/runtime/topology.h"
#include "parallel/runtime/unit_profiler.h"

namespace penstock::runtime {

/// What is to be measured.
struct ProfileRequest {
  /// What all ranks have in common: no stages. micro_batch · micro_batches: sequences of a replica and step.
  model::RankConfig common;
  Topology topology{1, 1, RankOrder::pipeline_first};
  ReductionOptions reduction;
  std::vector<int64_t> micro_batches;     ///< sizes, ascending; each divides the sequences
  std::vector<planner::Recompute> modes;  ///< at least one, ascending
  MeasuringEffort effort;
};

/// Called as measurements are done.
using ProfileProgress = std::function<void(int done, int total)>;

/// Measures every kind of unit, a unit at a time in arenas of its own, so that the model need not fit on any
/// rank; then the links of the pipeline, the reduction over replicas, and how traffic slows down compute.
/// Collective over the world, which has the topology's ranks: all measure the same at the same time, as they
/// would compute. A unit's times are medians over the ranks of each one's median; a rank that is slower or
/// faster than that has its pace.
///
/// The profile is rank 0's; elsewhere it holds what that rank measured. `versions` and `model` are the
/// caller's to fill.
planner::Profile measure_profile(Device& device, math::Math& math, transport::World& world,
                                 const ProfileRequest& request, const ProfileProgress& progress);

/// planner::Profile::pace, of what the world's ranks took for the same work, in seconds: each pipeline rank's
/// slowest replica against the median rank. What differs by less than `alike` is taken as alike; empty: all
/// are.
inline constexpr double alike = 0.05;
std::vector<double> paces_of(const std::vector<double>& seconds, const Topology& topology);

/// What the footprint knows of a profile, and no time: also for profiles that are not measured in this way.
planner::Profile profile_skeleton(math::Math& math, const ProfileRequest& request);

}  // namespace penstock::runtime
