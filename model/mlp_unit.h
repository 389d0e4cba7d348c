#pragma once

#include "model/unit.h"
#include "model/unit_dropout.h"
#include "model/unit_linear.h"
#include "model/unit_norm.h"

namespace penstock::model {

/// output = input + dropout(down(activation(up(norm(input))))): GELU (GPT-2) or SwiGLU (Llama).
class MlpUnit final : public Unit {
 public:
  MlpUnit(const UnitContext& context, int index, RecomputeMode mode);
  void forward(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor output) override;
  void recompute(Stream& stream, const SlotView& slot, const MicroBatch& batch) override;
  void backward_input(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor d_input) override;
  void backward_weight(Stream& stream, const SlotView& slot) override;

 private:
  void activate(Stream& stream, const SlotView& slot) const;

  math::Pointwise& pointwise_;
  RecomputeMode mode_;
  bool gelu_;
  UnitNorm norm_;
  UnitLinear up_, down_;
  ResidualJoin join_;
};

}  // namespace penstock::model
