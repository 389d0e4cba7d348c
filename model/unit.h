#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/device/stream.h"
#include "kernels/math/math.h"
#include "model/boundary.h"
#include "model/call_sites.h"
#include "model/parameter_store.h"
#include "model/slot.h"

namespace penstock::model {

/// Ranks that share one unit: over a layer's width (`tensor`) or over a sequence (`context`). Size 1 today.
struct Group {
  int size = 1;
  int rank = 0;
};

/// Keys and values of a layer's earlier tokens (math::CachedAttentionShape::cache()).
struct LayerCache {
  Tensor keys;
  Tensor values;
};

/// What all units of a rank share. Outlives them.
struct UnitContext {
  const RankConfig& config;
  math::Math& math;
  const CallSites& sites;
  const ParameterStore& parameters;
  const math::StepScalars* scalars = nullptr;  ///< device memory, of the step whose work is enqueued next
  Tensor rope_table;                           ///< fp32 (P, D/2, 2); absent for learned positions
  Tensor plan_workspace;                       ///< u8
  char* transients = nullptr;                  ///< device memory of Pool::transient
  Group& tensor;
  Group& context;
  const std::vector<LayerCache>* caches = nullptr;  ///< by layer; of a model that generates
};

/// training: dropout acts. evaluation: it does not, and the head computes its losses in its forward.
enum class Pass : uint8_t { training, evaluation };

/// One call's surroundings: the micro-batch's side band on the device, and where loss terms go.
struct MicroBatch {
  SideBand band;
  Tensor slots = {};  ///< i32 (N), of a model that generates: whose text each token belongs to; −1: none's
  double* losses = nullptr;  ///< fp64 (loss_terms): a unit with terms of its own writes its columns
  Pass pass = Pass::training;
};

/// A residual sub-layer. Calls only enqueue. N tokens, C hidden.
///
/// A parameter's gradient accumulates; that of norms, biases and embeddings in backward_input, that of matmul
/// weights in backward_weight (contract C1 b). backward_input + backward_weight is the full backward.
class Unit {
 public:
  virtual ~Unit() = default;

  /// output (N,C) from the slot's input; `output` is absent for the head.
  virtual void forward(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor output) = 0;
  /// Rebuilds what F did not keep, with the same calls; once, before backward_input.
  virtual void recompute(Stream& stream, const SlotView& slot, const MicroBatch& batch) = 0;
  /// d_input (N,C) from the slot's d_output; `d_input` is absent for the embedding, d_output for the head.
  virtual void backward_input(Stream& stream, const SlotView& slot, const MicroBatch& batch,
                              Tensor d_input) = 0;
  virtual void backward_weight(Stream& stream, const SlotView& slot) = 0;
};

/// The unit `index` of the model. `mode` says what recompute rebuilds.
std::unique_ptr<Unit> make_unit(const UnitContext& context, int index, RecomputeMode mode);

}  // namespace penstock::model
