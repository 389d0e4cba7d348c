#pragma once

#include <cstddef>

#include "kernels/device/tensor.h"
#include "kernels/math/cached_attention.h"

/// Argument checks of the CachedAttention family, shared by its implementations: UsageError with names, types
/// and shapes.
namespace penstock::math {

/// Whether a shape makes sense, whatever the implementation: extents of at least 1, kv_heads divides heads.
Support check_cached_attention_shape(const CachedAttentionShape& shape);

void check_cached_attention(const CachedAttentionShape& shape, size_t workspace_bytes, const Tensor& qkv,
                            const Tensor& slots, const Tensor& positions, const Tensor& keys,
                            const Tensor& values, const Tensor& out, const Tensor& workspace);

}  // namespace penstock::math
