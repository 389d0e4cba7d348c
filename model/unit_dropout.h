#pragma once

#include <cstdint>

#include "model/unit.h"

namespace penstock::model {

/// Dropout of one unit's branch (or of the embedding's output), and its gradient. Off when the probability is
/// 0 or the pass is an evaluation.
class UnitDropout {
 public:
  /// `unit` is the index along the model: the site's global number.
  UnitDropout(const UnitContext& context, int unit);
  bool acts(const MicroBatch& batch) const { return site_.probability > 0 && batch.pass == Pass::training; }
  /// y (N,C) = dropout(x), and of gradients alike; y may be x's memory.
  void apply(Stream& stream, Tensor x, const MicroBatch& batch, Tensor y) const;

 private:
  math::Pointwise& pointwise_;
  const UnitContext& context_;
  math::DropoutSite site_;
};

/// Joins a branch to the residual stream: output = input + dropout(branch), with the branch in `output`.
class ResidualJoin {
 public:
  ResidualJoin(const UnitContext& context, int unit);
  void forward(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor output) const;
  /// The gradient of the branch: d_output itself, or, with dropout, d_branch (written here).
  Tensor backward(Stream& stream, const SlotView& slot, const MicroBatch& batch) const;
  /// What backward returned, for W.
  Tensor d_branch(const SlotView& slot) const;

 private:
  math::Pointwise& pointwise_;
  UnitDropout dropout_;
};

}  // namespace penstock::model
