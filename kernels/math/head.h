#pragma once

#include <cstdint>
#include <memory>

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "kernels/math/step_scalars.h"
#include "kernels/math/support.h"

namespace penstock::math {

/// N tokens, C channels, V rows of w of which the first `vocab` are real (the rest pads; softmax never sees
/// it and its gradient is zero).
struct HeadShape {
  int64_t tokens = 0;
  int64_t hidden = 0;
  int64_t rows = 0;
  int64_t vocab = 0;
  DType dtype = DType::fp32;
};

/// Output projection with cross-entropy, a block of tokens at a time, so that N×V logits never exist at once.
class HeadPlan {
 public:
  virtual ~HeadPlan() = default;
  virtual const HeadShape& shape() const = 0;
  virtual size_t workspace_bytes() const = 0;

  /// losses (N) fp32 = log Σ exp(logits) − logits[target], logits = x (N,C) · w (V,C)ᵀ in fp32; 0 where
  /// target is −1. targets: i32 (N).
  virtual void loss(Stream& stream, Tensor x, Tensor w, Tensor targets, Tensor losses, Tensor workspace) = 0;
  /// The same losses, and with dlogits = (softmax − onehot) · scalars->gradient_scale, rounded to `dtype`:
  /// dx (N,C) = dlogits · w; dw (V,C) fp32 += dlogitsᵀ · x.
  virtual void loss_and_backward(Stream& stream, Tensor x, Tensor w, Tensor targets,
                                 const StepScalars* scalars, Tensor losses, Tensor dx, Tensor dw,
                                 Tensor workspace) = 0;
  /// logits (n, vocab) fp32 of x (n,C), n ≤ N: for generation.
  virtual void logits(Stream& stream, Tensor x, Tensor w, Tensor logits, Tensor workspace) = 0;
};

class Head {
 public:
  virtual ~Head() = default;
  virtual Support supports(const HeadShape& shape) const = 0;
  virtual std::unique_ptr<HeadPlan> plan(const HeadShape& shape) = 0;
};

}  // namespace penstock::math
