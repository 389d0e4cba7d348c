#pragma once

#include <optional>
#include <vector>

#include "model/rank_config.h"
#include "parallel/planner/parallel_section.h"
#include "parallel/planner/unit_costs.h"
#include "parallel/runtime/gradient_reducer.h"
#include "parallel/runtime/topology.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/rolling.h"

namespace penstock::runtime {

/// What a pipeline is made from.
struct PipelineRequest {
  ParallelSection parallel;  ///< resolved: data ≥ 1
  /// What all ranks have in common: no stages. `micro_batches` is of one replica and step.
  model::RankConfig common;
  RecomputeSection recompute;  ///< not `automatic`; `stages`: empty, or a mode a stage
  DType gradient_wire = DType::fp32;
  /// No step will be taken, as in an evaluation of a checkpoint: the schedule says where stages are, ranks
  /// have weights alone (RankConfig::forward_only), and common.micro_batches are on their way at once.
  bool forward_only = false;
  bool logits = false;  ///< PipelineEngine::logits() will be called
  bool graphs = false;  ///< stages run as graphs, where the device has them
  /// What units cost, at common.micro_batch: what `measured` cuts by, and in which order transfers are
  /// placed. The same on all ranks. Nothing: FLOPs.
  std::optional<planner::ModelCosts> costs;
};

/// Who holds which units, and what every rank does in a step: a pure function of the request, the same on all
/// ranks.
struct PipelinePlan {
  Topology topology{1, 1, RankOrder::pipeline_first};
  std::vector<int> units;  ///< (S) of each block of the model: a stage, and its second copy if there are two
  schedule::Program training;                       ///< forward_only: as `evaluation`
  std::optional<schedule::RollingProgram> rolling;  ///< asynchronous schedules: how steps follow one another
  schedule::Program evaluation;  ///< forwards of as many micro-batches as training has, by the first copy
  ReductionOptions reduction;
  std::vector<model::RankConfig>
      ranks;            ///< by pipeline rank, complete; of the first member of each optimizer
  bool graphs = false;  ///< as the request's

  /// Two steps may be under way (PipelineEngine::start_step).
  bool overlaps() const { return rolling.has_value(); }
  /// Stages of all copies of the weights: stage S + i is block i of the second.
  int stages() const { return training.schedule.stages(); }
  /// The first unit of a stage, and how many it has.
  int first_unit(int stage) const;
  int unit_count(int stage) const { return units[static_cast<size_t>(training.schedule.block_of(stage))]; }
  /// Which of those that sum its units' gradients a world rank is (ReductionOptions::members): the first copy
  /// of replica 0, the second, those of replica 1, ….
  int member(int world_rank) const;
  /// The pipeline rank that owns a stage.
  int owner(int stage) const { return training.schedule.rank_of_stage[static_cast<size_t>(stage)]; }
  /// Of the first copy.
  int last_stage() const { return training.schedule.blocks() - 1; }
  /// Whether a pipeline rank holds the first, or the last, block of the model, of any copy: it reads tokens,
  /// or targets.
  bool holds_first(int rank) const { return holds(rank, 0); }
  bool holds_last(int rank) const { return holds(rank, last_stage()); }
  bool holds(int rank, int block) const;
};

/// How its replicas and copies sum gradients; nothing is summed where no step is taken.
ReductionOptions reduction_of(const PipelineRequest& request);

/// schedule::ScheduleError, planner::PartitionError or UsageError for what cannot be run, with the reason.
PipelinePlan plan_pipeline(const PipelineRequest& request);

/// Bytes of what all ranks agree on at a step's end: fp64, a sum of squares a parameter, and every replica's
/// losses.
int64_t agreement_elements(const model::RankConfig& config, int replicas);

}  // namespace penstock::runtime
