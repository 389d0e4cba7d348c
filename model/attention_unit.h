#pragma once

#include "model/unit.h"
#include "model/unit_dropout.h"
#include "model/unit_linear.h"
#include "model/unit_norm.h"

namespace penstock::model {

/// output = input + dropout(out(attention(rotated(head norm(qkv(norm(input)))))));
/// head norm with qk_norm, rotation for Llama.
class AttentionUnit final : public Unit {
 public:
  AttentionUnit(const UnitContext& context, int index, RecomputeMode mode);
  void forward(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor output) override;
  void recompute(Stream& stream, const SlotView& slot, const MicroBatch& batch) override;
  void backward_input(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor d_input) override;
  void backward_weight(Stream& stream, const SlotView& slot) override;

 private:
  // Queries, keys and values as attention reads them.
  Tensor heads(const SlotView& slot) const;
  void normalise_heads(Stream& stream, const SlotView& slot) const;
  void rotate(Stream& stream, Tensor heads, const MicroBatch& batch, bool inverse) const;
  void attend(Stream& stream, const SlotView& slot, const MicroBatch& batch) const;
  // Everything from the unit's input to `attended`.
  void interior(Stream& stream, const SlotView& slot, const MicroBatch& batch) const;

  math::Math& math_;
  math::AttentionPlan* attention_;
  math::CachedAttentionPlan* cached_;  // the one or the other
  LayerCache cache_;
  RecomputeMode mode_;
  int64_t heads_, kv_heads_, head_dim_;
  float epsilon_;
  Tensor rope_table_;
  Tensor workspace_;
  UnitNorm norm_;
  UnitLinear qkv_, out_;
  ResidualJoin join_;
  Weights q_norm_, k_norm_;  // absent: no QK norm
  Accumulator d_q_norm_, d_k_norm_;
};

}  // namespace penstock::model
