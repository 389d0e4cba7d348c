#pragma once

#include "model/unit.h"
#include "model/unit_norm.h"

namespace penstock::model {

/// Final norm, output projection and cross-entropy. Its one pass (logits, loss, their gradient, weight
/// gradient, block by block) is its backward_input; forward keeps the input only, in an evaluation it
/// computes the losses.
class HeadUnit final : public Unit {
 public:
  HeadUnit(const UnitContext& context, int index);
  void forward(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor output) override;
  void recompute(Stream& stream, const SlotView& slot, const MicroBatch& batch) override;
  void backward_input(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor d_input) override;
  void backward_weight(Stream& stream, const SlotView& slot) override;
  /// logits (count, vocab) fp32 of the slot's rows [first, first + count).
  void logits(Stream& stream, const SlotView& slot, int64_t first, int64_t count, Tensor logits) const;

 private:
  math::HeadPlan& head_;
  math::Reduce& reduce_;
  const UnitContext& context_;
  Tensor workspace_;
  UnitNorm norm_;
  Weights weight_;
  Accumulator d_weight_;
};

}  // namespace penstock::model
