#pragma once

#include "kernels/math/math.h"
#include "model/rank_config.h"
#include "parallel/planner/unit_costs.h"
#include "parallel/runtime/gradient_reducer.h"

namespace penstock::runtime {

/// The planner's modes as the job's, and back; UsageError for `automatic`.
RecomputeMode recompute_mode(planner::Recompute mode);
planner::Recompute planned_mode(RecomputeMode mode);

/// `common` (what all ranks have in common, no stages) with a stage of one unit and a slot of each pool: what
/// measures a unit, or asks for its memory.
model::RankConfig one_unit(const model::RankConfig& common, int unit, RecomputeMode mode);

/// All of the planner's costs that are counted and not timed, for micro-batches of common.micro_batch and
/// steps of common.micro_batches; every time is 0. From model/slot.h and model/memory_plan.h: what they add
/// up to for a rank is its plan to the byte, but that rank_bytes holds the rotary table and the reduction's
/// buckets as the largest unit needs them, where the rank may have neither attention nor that unit.
/// `math` tells the workspace of products. UsageError where it does not support the model.
planner::ModelCosts model_footprint(const model::RankConfig& common, math::Math& math,
                                    const ReductionOptions& reduction);

}  // namespace penstock::runtime
