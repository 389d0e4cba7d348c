#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device/arena.h"
#include "kernels/device/dtype.h"
#include "model/model_section.h"
#include "model/optimizer_section.h"
#include "model/precision_section.h"
#include "model/recompute_section.h"
#include "model/shards.h"
#include "model/slot.h"

namespace penstock::model {

/// A contiguous run of units [begin, end) of the model, and how many micro-batches may be in flight in it.
struct StageConfig {
  int begin = 0;
  int end = 0;
  std::vector<RecomputeMode> recompute;  ///< one a unit; empty: none
  int forward_slots = 1;                 ///< micro-batches between F and I
  int kept_slots = 1;                    ///< micro-batches between F and W
  int weight_slots = 1;                  ///< micro-batches between I (or the arrival of its gradient) and W
  int copy = 0;  ///< of the weights; several hold the same bits, and the first is what is counted and saved
};

/// A named piece of a rank's device memory.
struct PlannedAllocation {
  ArenaTag tag = ArenaTag::workspace;
  std::string name;
  size_t bytes = 0;  ///< a multiple of alignment_bytes
};

/// Everything that decides the memory of one rank's part of the model.
struct RankConfig {
  ModelSection model;  ///< resolved: vocab_size > 0
  DType compute = DType::fp32;
  std::optional<DType> wire;  ///< of what crosses from stage to stage; absent: as `compute`
  int64_t micro_batch = 1;    ///< sequences
  int64_t micro_batches = 1;  ///< most micro-batches of one step or evaluation
  bool document_mask = false;
  uint64_t seed = 1;
  OptimizerSection optimizer;
  std::vector<StageConfig> stages;  ///< ascending along the model
  int output_buffers = 1;           ///< outputs of its stages that may be on their way to other stages
  int d_input_buffers = 1;          ///< likewise gradients of their inputs
  int gradient_sets = 1;            ///< 2: one may be summed over replicas while the other accumulates
  int weight_versions = 1;  ///< 2: an asynchronous schedule, of which two steps are under way; so are 2 sets
  /// No step is taken: what gradients, optimizer and backward passes need, and masters that kernels read a
  /// copy of, are not there; slots hold a unit's input alone.
  bool forward_only = false;
  Shard shard;  ///< of the optimizer; every member has as much memory as the one that owns most
  std::vector<PlannedAllocation> runtime_memory;  ///< what is kept beside the model, claimed by others

  MicroBatchShape shape() const { return {micro_batch, model.sequence_length}; }
};

/// A unit's tensors of a micro-batch on such a rank, under its recompute mode.
SlotLayout slot_layout(const RankConfig& config, int unit, RecomputeMode mode);

/// The dtype of products and stored activations, and of messages; UsageError for one that no unit implements.
DType compute_dtype(Precision precision);

DType wire_dtype(const RankConfig& config);

/// One stage of all units: one rank trains alone, micro-batch after micro-batch.
StageConfig whole_model(const ModelSection& model, RecomputeMode mode);

/// UsageError where stages overlap, leave the model, or lists have the wrong length.
void check(const RankConfig& config);

/// Whether the rank holds the unit; and of which copy of the weights (0 where it does not).
bool has_unit(const RankConfig& config, int unit);
int copy_of_unit(const RankConfig& config, int unit);
/// Whether head and embedding are tied and share one set of weights on this rank.
bool shares_tied_weight(const RankConfig& config);
/// Whether the tied weight's other copy is on another rank, so that gradients must be exchanged.
bool exchanges_tied_gradient(const RankConfig& config);

}  // namespace penstock::model
