#pragma once

#include <optional>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "kernels/transport/communicator.h"
#include "kernels/transport/world.h"
#include "model/rank_config.h"
#include "parallel/planner/profile.h"
#include "parallel/runtime/gradient_reducer.h"

namespace penstock::runtime {

/// How often something is measured: `repetitions` at least, and until `least_seconds` were measured, but no
/// more than `most`; after `warm_up` that do not count.
struct MeasuringEffort {
  int warm_up = 2;
  int repetitions = 9;
  double least_seconds = 0.1;
  int most = 400;
};

/// Median and distance of the quartiles (nearest ranks below and above) of at least one sample.
planner::Timing timing_of(std::vector<double> samples);

/// A unit's actions, and the optimizer's work on it: zeroing, squares, update.
struct UnitTimings {
  planner::Timing forward;
  planner::Timing recompute;
  planner::Timing backward_input;
  planner::Timing backward_weight;
  planner::Timing optimizer_step;
};

/// Measures the unit alone, in arenas of its own that are given back, so that a model need not fit: `common`
/// says micro-batch and model, its parameters and inputs are random. By stamps on a compute stream. No tag of
/// the device may have an arena. UsageError, DeviceError where it cannot run.
UnitTimings measure_unit(Device& device, math::Math& math, const model::RankConfig& common, int unit,
                         RecomputeMode mode, const MeasuringEffort& effort);

/// Seconds in which the unit's gradients are summed over the replicas. Collective over `replicas`.
planner::Timing measure_reduction(Device& device, math::Math& math, const model::RankConfig& common, int unit,
                                  transport::Communicator& replicas, ReductionOptions options,
                                  const MeasuringEffort& effort);

/// How much longer the unit's forward takes while messages of the boundary's size pass between us and our
/// peer in both directions (0.1: 10 %). Collective over the world, so that all compute at once. `peer`: a
/// rank of `between`, whose peer we are; nothing: we have none, and the answer is nothing. `message_seconds`:
/// about what a message takes.
std::optional<double> measure_traffic_slowdown(Device& device, math::Math& math,
                                               const model::RankConfig& common, int unit,
                                               transport::World& world, transport::Communicator& between,
                                               std::optional<int> peer, double message_seconds,
                                               const MeasuringEffort& effort);

}  // namespace penstock::runtime
