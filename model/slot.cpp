#include "model/slot.h"

#include <algorithm>
#include <utility>

#include "kernels/device/arena.h"
#include "kernels/device/error.h"

namespace penstock::model {

std::string_view name_of(SlotTensorId id) {
  static constexpr std::array<std::string_view, slot_tensor_ids> names{
      "input",      "norm_output", "mean",        "rstd",          "projected", "heads",
      "head_rstd",  "attended",    "log_sum_exp", "activated",     "d_output",  "d_branch",
      "d_attended", "d_activated", "d_projected", "d_norm_output", "losses"};
  return names[static_cast<size_t>(id)];
}

std::string_view name_of(Pool pool) {
  static constexpr std::array<std::string_view, pool_count> names{"forward", "kept", "weight", "transient"};
  return names[static_cast<size_t>(pool)];
}

Pool pool_of(const SlotTensor& tensor) {
  // Written by the unit after this one, perhaps long before: never in shared workspace.
  if (tensor.id == SlotTensorId::d_output) return Pool::weight;
  if (tensor.born == Phase::forward) {
    if (tensor.dies == Phase::forward) return Pool::transient;
    return tensor.dies == Phase::backward_weight ? Pool::kept : Pool::forward;
  }
  return tensor.dies == Phase::backward_weight ? Pool::weight : Pool::transient;
}

namespace {

using Id = SlotTensorId;

// Adds tensors by what the recompute mode does with them.
class Lister {
 public:
  Lister(const ModelSection& model, DType compute, int64_t rows, RecomputeMode mode)
      : rows_(rows), hidden_(model.hidden_size), compute_(compute), mode_(mode) {}

  void add(Id id, Shape shape, DType dtype, Phase born, Phase dies) {
    tensors_.push_back({id, shape, dtype, born, dies});
  }
  void add(Id id, int64_t width, Phase born, Phase dies) {
    add(id, Shape{rows_, width}, compute_, born, dies);
  }
  /// Made by F and read until `dies`; made again by R where `mode` is at least `rebuilt_from`.
  void interior(Id id, Shape shape, DType dtype, Phase dies, RecomputeMode rebuilt_from) {
    if (mode_ < rebuilt_from) {
      add(id, shape, dtype, Phase::forward, dies);
    } else {
      add(id, shape, dtype, Phase::forward, Phase::forward);
      add(id, shape, dtype, Phase::recompute, dies);
    }
  }
  void interior(Id id, int64_t width, Phase dies, RecomputeMode rebuilt_from) {
    interior(id, Shape{rows_, width}, compute_, dies, rebuilt_from);
  }
  void norm(bool layer_norm) {
    interior(Id::norm_output, hidden_, Phase::backward_weight, RecomputeMode::selective);
    if (layer_norm)
      interior(Id::mean, Shape{rows_}, DType::fp32, Phase::backward_input, RecomputeMode::selective);
    interior(Id::rstd, Shape{rows_}, DType::fp32, Phase::backward_input, RecomputeMode::selective);
  }

  std::vector<SlotTensor> take() { return std::move(tensors_); }

 private:
  int64_t rows_;
  int64_t hidden_;
  DType compute_;
  RecomputeMode mode_;
  std::vector<SlotTensor> tensors_;
};

}  // namespace

std::vector<SlotTensor> slot_tensors(const ModelSection& model, UnitId unit, DType compute,
                                     MicroBatchShape shape, RecomputeMode mode) {
  if (mode == RecomputeMode::automatic) {
    throw UsageError(
        "recompute mode \"auto\" must be resolved to none, selective or full before memory is planned");
  }
  constexpr Phase I = Phase::backward_input;
  constexpr Phase W = Phase::backward_weight;
  constexpr RecomputeMode selective = RecomputeMode::selective;
  constexpr RecomputeMode full = RecomputeMode::full;
  const int64_t rows = shape.rows();
  const int64_t hidden = model.hidden_size;
  const bool layer_norm = model.family == Family::gpt2;
  Lister list(model, compute, rows, mode);
  switch (unit.kind) {
    case UnitKind::embedding:
      list.add(Id::d_output, hidden, I, I);
      break;
    case UnitKind::attention: {
      const int64_t attended = model.heads * model.head_dim;
      const int64_t width = attended + 2 * model.kv_heads * model.head_dim;
      list.add(Id::input, hidden, Phase::forward, I);
      list.norm(layer_norm);
      list.interior(Id::projected, width, I, full);
      if (model.qk_norm) {
        list.interior(Id::heads, width, I, selective);
        list.interior(Id::head_rstd, Shape{rows, model.heads + model.kv_heads}, DType::fp32, I, selective);
      }
      list.interior(Id::attended, attended, W, full);
      list.interior(Id::log_sum_exp, Shape{shape.sequences, model.heads, shape.tokens}, DType::fp32, I, full);
      list.add(Id::d_output, hidden, I, W);
      if (model.dropout > 0) list.add(Id::d_branch, hidden, I, W);
      list.add(Id::d_attended, attended, I, I);
      list.add(Id::d_projected, width, I, W);
      list.add(Id::d_norm_output, hidden, I, I);
      break;
    }
    case UnitKind::mlp: {
      const int64_t inner = model.ffn_hidden_size;
      const int64_t width = layer_norm ? inner : 2 * inner;
      list.add(Id::input, hidden, Phase::forward, I);
      list.norm(layer_norm);
      list.interior(Id::projected, width, I, full);
      list.interior(Id::activated, inner, W, selective);
      list.add(Id::d_output, hidden, I, W);
      if (model.dropout > 0) list.add(Id::d_branch, hidden, I, W);
      if (!layer_norm) list.add(Id::d_activated, inner, I, I);  // GELU: in d_projected, in place
      list.add(Id::d_projected, width, I, W);
      list.add(Id::d_norm_output, hidden, I, I);
      break;
    }
    case UnitKind::head:
      // One pass in the backward action; F only keeps the input. The F scratch is for evaluation and logits.
      list.add(Id::input, hidden, Phase::forward, I);
      for (const Phase phase : {Phase::forward, I}) {
        list.add(Id::norm_output, hidden, phase, phase);
        if (layer_norm) list.add(Id::mean, Shape{rows}, DType::fp32, phase, phase);
        list.add(Id::rstd, Shape{rows}, DType::fp32, phase, phase);
        list.add(Id::losses, Shape{rows}, DType::fp32, phase, phase);
      }
      list.add(Id::d_norm_output, hidden, I, I);
      break;
  }
  return list.take();
}

SlotLayout::SlotLayout(std::vector<SlotTensor> tensors) : tensors_(std::move(tensors)) {
  size_t forward_scratch = 0;
  size_t backward_scratch = 0;
  for (const SlotTensor& tensor : tensors_) {
    const Pool pool = pool_of(tensor);
    size_t& end = pool != Pool::transient         ? bytes_[static_cast<size_t>(pool)]
                  : tensor.born == Phase::forward ? forward_scratch
                                                  : backward_scratch;
    offsets_.push_back(end);
    end += aligned(static_cast<size_t>(tensor.shape.elements()) * size_of(tensor.dtype));
  }
  bytes_[static_cast<size_t>(Pool::transient)] = std::max(forward_scratch, backward_scratch);
}

SlotView SlotLayout::view(Phase phase, const std::array<void*, pool_count>& slots) const {
  SlotView view;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const SlotTensor& tensor = tensors_[i];
    const bool forward_scratch = tensor.born == Phase::forward && tensor.dies == Phase::forward;
    const bool visible = phase == Phase::forward ? tensor.born == Phase::forward : !forward_scratch;
    if (!visible) continue;
    char* slot = static_cast<char*>(slots[static_cast<size_t>(pool_of(tensor))]);
    view.set(tensor.id, Tensor(slot + offsets_[i], tensor.dtype, tensor.shape));
  }
  return view;
}

}  // namespace penstock::model
