#pragma once

#include <cstdint>

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "kernels/math/step_scalars.h"
#include "kernels/math/support.h"

namespace penstock::math {

/// Names one dropout call site: numbers are keyed by (seed, purpose, site, step, sample, element).
struct DropoutSite {
  uint64_t seed = 0;
  uint32_t site = 0;  ///< global: 0 embedding, 1 + 2·layer attention, 2 + 2·layer mlp
  float probability = 0;
};

/// Element-wise operations. Tensors of one call share dtype (fp32, bf16 or fp16) unless said otherwise;
/// arithmetic in fp32, one rounding at the store. An element's bits do not depend on its place (contract C1
/// f).
class Pointwise {
 public:
  virtual ~Pointwise() = default;
  virtual Support supports(DType dtype) const = 0;

  /// y = ½ x (1 + tanh(√(2/π) (x + 0.044715 x³))).
  virtual void gelu_forward(Stream& stream, Tensor x, Tensor y) = 0;
  /// dx = dy · gelu'(x). dx may be dy's memory.
  virtual void gelu_backward(Stream& stream, Tensor dy, Tensor x, Tensor dx) = 0;

  /// y (N,F) = silu(gate) · up, with gate_up (N,2F): each row the gates, then the ups; silu(x) = x / (1 +
  /// exp(−x)).
  virtual void swiglu_forward(Stream& stream, Tensor gate_up, Tensor y) = 0;
  /// dgate_up (N,2F) from dy (N,F). dgate_up may be gate_up's memory.
  virtual void swiglu_backward(Stream& stream, Tensor dy, Tensor gate_up, Tensor dgate_up) = 0;

  /// y = a + b. y may be a's or b's memory.
  virtual void add(Stream& stream, Tensor a, Tensor b, Tensor y) = 0;
  /// dst = value of src in dst's dtype (any two of fp32, bf16 and fp16), rounded to nearest even.
  virtual void convert(Stream& stream, Tensor src, Tensor dst) = 0;

  /// Rotates the first `rotated_heads` heads of each row of qkv (N, ≥ rotated_heads·D), in place, halves
  /// layout: (a, b) = (x[i], x[i + D/2]) → (a cos − b sin, b cos + a sin). table: fp32 (P, D/2, 2) of (cos,
  /// sin) by position; positions: i32 (N). `inverse` rotates back (the gradient).
  virtual void rope(Stream& stream, Tensor qkv, Tensor positions, Tensor table, int64_t rotated_heads,
                    int64_t head_dim, bool inverse) = 0;

  /// y (N,C) = x · keep / (1 − p). keep of element e = t·C + c of a sample: word e mod 4 of
  /// philox({e/4, low sample, low step, purpose << 24 | site}, {low seed, high seed ^ high sample}) ≥ p·2³².
  /// samples: i64 (B), N = B·T; scalars: device memory. y may be x's memory. The gradient is the same call on
  /// dy.
  virtual void dropout(Stream& stream, Tensor x, Tensor samples, const StepScalars* scalars, DropoutSite site,
                       Tensor y) = 0;
};

}  // namespace penstock::math
