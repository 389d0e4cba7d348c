#pragma once

#include "model/unit.h"
#include "model/unit_dropout.h"

namespace penstock::model {

/// output (N,C) = dropout(token table row [+ position table row (GPT-2)]).
class EmbeddingUnit final : public Unit {
 public:
  explicit EmbeddingUnit(const UnitContext& context);
  void forward(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor output) override;
  void recompute(Stream& stream, const SlotView& slot, const MicroBatch& batch) override;
  void backward_input(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor d_input) override;
  void backward_weight(Stream& stream, const SlotView& slot) override;

 private:
  math::Embedding& embedding_;
  UnitDropout dropout_;
  Weights token_;
  Weights position_;  // absent: Llama
  Accumulator d_token_, d_position_;
};

}  // namespace penstock::model
