#pragma once

#include <cstdint>
#include <memory>

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "kernels/math/support.h"

namespace penstock::math {

/// Attention of tokens that come after others whose keys and values were kept: R rows of a call, S slots (a
/// text each) of P positions, H query heads and G key heads (G divides H) of D channels.
struct CachedAttentionShape {
  int64_t rows = 0;
  int64_t slots = 0;
  int64_t positions = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  DType dtype = DType::fp32;

  int64_t row_elements() const { return (heads + 2 * kv_heads) * head_dim; }
  /// Of the keys, or the values, of a layer: (S, G, P, D).
  Shape cache() const { return {slots, kv_heads, positions, head_dim}; }
};

class CachedAttentionPlan {
 public:
  virtual ~CachedAttentionPlan() = default;
  virtual const CachedAttentionShape& shape() const = 0;
  virtual size_t workspace_bytes() const = 0;

  /// Row r of qkv (R, (H+2G)·D: as AttentionPlan's) is the token at `positions[r]` of the text in slot
  /// `slots[r]`: both i32 (R), in range; a slot of −1: no token, its row of out is 0. Its key and value are
  /// stored in keys and values (S,G,P,D); then out (R, H·D) is its attention over positions 0…positions[r] of
  /// its slot, those of other rows of the call included. Scale 1/sqrt(D), fp32 sums. No two rows have one
  /// place.
  virtual void forward(Stream& stream, Tensor qkv, Tensor slots, Tensor positions, Tensor keys, Tensor values,
                       Tensor out, Tensor workspace) = 0;
};

class CachedAttention {
 public:
  virtual ~CachedAttention() = default;
  virtual Support supports(const CachedAttentionShape& shape) const = 0;
  /// DeviceError with the reason if the shape is not supported.
  virtual std::unique_ptr<CachedAttentionPlan> plan(const CachedAttentionShape& shape) = 0;
};

}  // namespace penstock::math
