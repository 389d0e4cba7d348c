#include "kernels/math/attention_check.h"

#include <fmt/format.h>

#include "kernels/math/check.h"

namespace penstock::math {
namespace {

/// What both directions take: qkv, starts, out, lse and the workspace.
void check_common(const ArgumentCheck& check, const AttentionShape& shape, size_t workspace_bytes,
                  const Tensor& qkv, const Tensor& starts, const Tensor& out, const Tensor& lse,
                  const Tensor& workspace) {
  const int64_t n = shape.batch * shape.tokens;
  const DType statistics = shape.dtype == DType::fp64 ? DType::fp64 : DType::fp32;
  check.tensor("qkv", qkv, {n, (shape.heads + 2 * shape.kv_heads) * shape.head_dim}, {shape.dtype})
      .optional("starts", starts, {n}, {DType::i32})
      .tensor("out", out, {n, shape.heads * shape.head_dim}, {shape.dtype})
      .tensor("lse", lse, {shape.batch, shape.heads, shape.tokens}, {statistics})
      .workspace(workspace, workspace_bytes);
}

}  // namespace

Support check_attention_shape(const AttentionShape& shape) {
  if (shape.batch < 1 || shape.tokens < 1 || shape.heads < 1 || shape.kv_heads < 1 || shape.head_dim < 1) {
    return Support::no(
        fmt::format("attention of batch = {}, tokens = {}, heads = {}, kv_heads = {}, head_dim = {}: each "
                    "must be at least 1",
                    shape.batch, shape.tokens, shape.heads, shape.kv_heads, shape.head_dim));
  }
  if (shape.heads % shape.kv_heads != 0) {
    return Support::no(
        fmt::format("attention of {} heads with {} key heads: the latter must divide the former", shape.heads,
                    shape.kv_heads));
  }
  return Support::yes();
}

void check_attention_forward(const AttentionShape& shape, size_t workspace_bytes, const Tensor& qkv,
                             const Tensor& starts, const Tensor& out, const Tensor& lse,
                             const Tensor& workspace) {
  check_common(ArgumentCheck("attention forward"), shape, workspace_bytes, qkv, starts, out, lse, workspace);
}

void check_attention_backward(const AttentionShape& shape, size_t workspace_bytes, const Tensor& dout,
                              const Tensor& qkv, const Tensor& starts, const Tensor& out, const Tensor& lse,
                              const Tensor& dqkv, const Tensor& workspace) {
  const ArgumentCheck check("attention backward");
  check_common(check, shape, workspace_bytes, qkv, starts, out, lse, workspace);
  check.tensor("dout", dout, out.shape, {shape.dtype}).tensor("dqkv", dqkv, qkv.shape, {shape.dtype});
  check.that(dqkv.data != qkv.data, "dqkv is qkv's memory; expected memory of its own");
}

}  // namespace penstock::math
