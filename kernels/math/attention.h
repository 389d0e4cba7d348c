#pragma once

#include <cstdint>
#include <memory>

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "kernels/math/support.h"

namespace penstock::math {

/// B sequences of T tokens (N = B·T), H query heads and G key heads (G divides H) of D channels.
struct AttentionShape {
  int64_t batch = 0;
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  DType dtype = DType::fp32;
};

/// Causal attention that never stores T×T. Rows of qkv (N, (H+2G)·D): the H query heads, the G key heads, the
/// G value heads, D channels each, after rotary embedding and head norm. Scale 1/sqrt(D). fp32 sums.
class AttentionPlan {
 public:
  virtual ~AttentionPlan() = default;
  virtual const AttentionShape& shape() const = 0;
  virtual size_t workspace_bytes() const = 0;

  /// out (N, H·D); lse (B,H,T) fp32 = log Σ exp of each query's scores, kept for the backward pass.
  /// starts: i32 (N), the first token (0…T−1, within its sequence) that a query may see, non-decreasing in a
  /// sequence (document borders); absent: 0.
  virtual void forward(Stream& stream, Tensor qkv, Tensor starts, Tensor out, Tensor lse,
                       Tensor workspace) = 0;
  /// dqkv (N, (H+2G)·D) from dout (N, H·D); scores are recomputed from qkv and lse.
  virtual void backward(Stream& stream, Tensor dout, Tensor qkv, Tensor starts, Tensor out, Tensor lse,
                        Tensor dqkv, Tensor workspace) = 0;
};

class Attention {
 public:
  virtual ~Attention() = default;
  virtual Support supports(const AttentionShape& shape) const = 0;
  virtual std::unique_ptr<AttentionPlan> plan(const AttentionShape& shape) = 0;
};

}  // namespace penstock::math
