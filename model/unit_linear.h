#pragma once

#include <string>
#include <utility>

#include "model/unit.h"

namespace penstock::model {

/// A unit's matmul: a plan with its weight, its bias (may be absent) and their gradients.
class UnitLinear {
 public:
  UnitLinear(const UnitContext& context, math::Linear& plan, int unit, const std::string& prefix);
  /// y (N,O) = x (N,I) · weightᵀ + bias.
  void forward(Stream& stream, Tensor x, Tensor y) const {
    plan_.forward(stream, x, weight_, bias_, y, workspace_);
  }
  /// dx (N,I) from dy (N,O); the bias' gradient accumulates.
  void backward_input(Stream& stream, Tensor dy, Tensor dx) const {
    if (d_bias_) plan_.backward_bias(stream, dy, d_bias_);
    plan_.backward_input(stream, dy, weight_, dx, workspace_);
  }
  void backward_weight(Stream& stream, Tensor dy, Tensor x) const {
    if (std::exchange(*first_sum_, false)) {
      plan_.first_backward_weight(stream, dy, x, d_weight_, workspace_);
    } else {
      plan_.backward_weight(stream, dy, x, d_weight_, workspace_);
    }
  }

 private:
  math::Linear& plan_;
  Tensor workspace_;
  Weights weight_;
  Weights bias_;
  Accumulator d_weight_, d_bias_;
  bool* first_sum_;
};

}  // namespace penstock::model
