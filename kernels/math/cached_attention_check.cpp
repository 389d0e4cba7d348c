#include "kernels/math/cached_attention_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/math/check.h"

namespace penstock::math {

Support check_cached_attention_shape(const CachedAttentionShape& shape) {
  if (std::min({shape.rows, shape.slots, shape.positions, shape.heads, shape.kv_heads, shape.head_dim}) < 1) {
    return Support::no(
        fmt::format("cached attention of rows = {}, slots = {}, positions = {}, heads = {}, kv_heads = {}, "
                    "head_dim = {}: each must be at least 1",
                    shape.rows, shape.slots, shape.positions, shape.heads, shape.kv_heads, shape.head_dim));
  }
  if (shape.heads % shape.kv_heads != 0) {
    return Support::no(
        fmt::format("cached attention of {} heads with {} key heads: the latter must divide the former",
                    shape.heads, shape.kv_heads));
  }
  return Support::yes();
}

void check_cached_attention(const CachedAttentionShape& shape, size_t workspace_bytes, const Tensor& qkv,
                            const Tensor& slots, const Tensor& positions, const Tensor& keys,
                            const Tensor& values, const Tensor& out, const Tensor& workspace) {
  const int64_t rows = shape.rows;
  ArgumentCheck("cached attention")
      .tensor("qkv", qkv, {rows, shape.row_elements()}, {shape.dtype})
      .tensor("slots", slots, {rows}, {DType::i32})
      .tensor("positions", positions, {rows}, {DType::i32})
      .tensor("keys", keys, shape.cache(), {shape.dtype})
      .tensor("values", values, shape.cache(), {shape.dtype})
      .tensor("out", out, {rows, shape.heads * shape.head_dim}, {shape.dtype})
      .workspace(workspace, workspace_bytes);
}

}  // namespace penstock::math
