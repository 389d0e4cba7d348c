#pragma once

namespace penstock {

/// [optimizer]: AdamW (Loshchilov & Hutter 2019) with decoupled weight decay, and clipping by the global
/// norm.
struct OptimizerSection {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;

  bool operator==(const OptimizerSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("beta1", beta1).at_least(0).below(1).help("decay of the first moment");
    v.key("beta2", beta2).at_least(0).below(1).help("decay of the second moment");
    v.key("epsilon", epsilon).above(0).help("added to the root of the second moment");
    v.key("weight_decay", weight_decay).at_least(0).help("of matrices; norms and biases do not decay");
    v.key("clip_norm", clip_norm).at_least(0).help("largest global gradient norm; 0: no clipping");
  }
};

}  // namespace penstock
