#pragma once

#include <string>

#include "model/unit.h"

namespace penstock::model {

/// The norm at the head of a unit: LayerNorm (GPT-2) or RMSNorm (Llama), from slot tensors `input` to
/// `norm_output`.
class UnitNorm {
 public:
  UnitNorm(const UnitContext& context, int unit, const std::string& prefix);
  void forward(Stream& stream, const SlotView& slot) const;
  /// d_input (N,C) = d_residual (N,C; may be absent) + the gradient through the norm of the slot's
  /// d_norm_output.
  void backward(Stream& stream, const SlotView& slot, Tensor d_residual, Tensor d_input) const;

 private:
  math::Norm& norm_;
  float epsilon_;
  Weights weight_;
  Weights bias_;  // absent: RMSNorm
  Accumulator d_weight_, d_bias_;
};

}  // namespace penstock::model
