#pragma once

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "kernels/math/support.h"

namespace penstock::math {

/// Normalisation over the last axis. N tokens, C channels, H query heads and G key heads of D channels,
/// W = (H + 2 G) D. x, y, dx, dy: fp32, bf16 or fp16 (all alike); weight, bias, mean, rstd and gradients of
/// weight and bias: fp32. Statistics are fp32 sums in a fixed order; gradients of weight and bias add over
/// tokens in ascending blocks, so the bits depend neither on the number of threads nor on the place in a
/// buffer.
class Norm {
 public:
  virtual ~Norm() = default;
  virtual Support supports(DType dtype, int64_t channels) const = 0;

  /// y (N,C) = (x - mean) · rstd · weight + bias, rstd = 1 / sqrt(var + epsilon), var the mean of squared
  /// deviations. mean, rstd (N).
  virtual void layer_norm_forward(Stream& stream, Tensor x, Tensor weight, Tensor bias, float epsilon,
                                  Tensor y, Tensor mean, Tensor rstd) = 0;
  /// dx (N,C) = dresidual (N,C; may be absent) + gradient through the norm; dweight (C), dbias (C)
  /// accumulate. dx may be dresidual's memory.
  virtual void layer_norm_backward(Stream& stream, Tensor dy, Tensor x, Tensor weight, Tensor mean,
                                   Tensor rstd, Tensor dresidual, Tensor dx, Tensor dweight,
                                   Tensor dbias) = 0;

  /// y (N,C) = x · rstd · weight, rstd = 1 / sqrt(mean of x² + epsilon). rstd (N).
  virtual void rms_norm_forward(Stream& stream, Tensor x, Tensor weight, float epsilon, Tensor y,
                                Tensor rstd) = 0;
  /// As layer_norm_backward, without mean and bias.
  virtual void rms_norm_backward(Stream& stream, Tensor dy, Tensor x, Tensor weight, Tensor rstd,
                                 Tensor dresidual, Tensor dx, Tensor dweight) = 0;

  /// RMS norm of each query head with weight_q (D) and of each key head with weight_k (D); values are copied.
  /// qkv, out (N,W), not the same memory; rstd (N, H+G).
  virtual void head_norm_forward(Stream& stream, Tensor qkv, Tensor weight_q, Tensor weight_k, float epsilon,
                                 int64_t heads, int64_t kv_heads, Tensor out, Tensor rstd) = 0;
  /// Turns dqkv (N,W), the gradient of `out`, into the gradient of `qkv`, in place; dweight_q, dweight_k (D)
  /// accumulate.
  virtual void head_norm_backward(Stream& stream, Tensor dqkv, Tensor qkv, Tensor weight_q, Tensor weight_k,
                                  Tensor rstd, int64_t heads, int64_t kv_heads, Tensor dweight_q,
                                  Tensor dweight_k) = 0;
};

}  // namespace penstock::math
