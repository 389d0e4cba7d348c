#pragma once

#include "kernels/device/tensor.h"
#include "kernels/math/attention.h"

/// Argument checks of the Attention family, shared by its implementations: UsageError with names, types and
/// shapes. Shapes of dtype fp64 pass (the reference computes on them): lse is fp64 then.
namespace penstock::math {

/// Whether a shape makes sense, whatever the implementation: extents of at least 1, kv_heads divides heads.
Support check_attention_shape(const AttentionShape& shape);

void check_attention_forward(const AttentionShape& shape, size_t workspace_bytes, const Tensor& qkv,
                             const Tensor& starts, const Tensor& out, const Tensor& lse,
                             const Tensor& workspace);
void check_attention_backward(const AttentionShape& shape, size_t workspace_bytes, const Tensor& dout,
                              const Tensor& qkv, const Tensor& starts, const Tensor& out, const Tensor& lse,
                              const Tensor& dqkv, const Tensor& workspace);

}  // namespace penstock::math
