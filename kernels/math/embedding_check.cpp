#include "kernels/math/embedding_check.h"

#include "kernels/math/check.h"

namespace penstock::math {

EmbeddingSizes check_embedding_forward(const Tensor& tokens, const Tensor& positions,
                                       const Tensor& token_table, const Tensor& position_table,
                                       const Tensor& y) {
  const EmbeddingSizes sizes{tokens.shape[0], token_table.shape[1]};
  const auto [N, C] = sizes;
  const ArgumentCheck check("embedding forward");
  check.tensor("tokens", tokens, {N}, {DType::i32})
      .tensor("y", y, {N, C}, {DType::fp32, DType::bf16, DType::fp16})
      .tensor("token_table", token_table, {token_table.shape[0], C}, {y.dtype})
      .optional("position_table", position_table, {position_table.shape[0], C}, {y.dtype});
  if (position_table) check.tensor("positions", positions, {N}, {DType::i32});
  return sizes;
}

EmbeddingSizes check_embedding_backward(const Tensor& dy, const Tensor& tokens, const Tensor& positions,
                                        const Tensor& dtoken_table, const Tensor& dposition_table) {
  const EmbeddingSizes sizes{tokens.shape[0], dtoken_table.shape[1]};
  const auto [N, C] = sizes;
  const ArgumentCheck check("embedding backward");
  check.tensor("tokens", tokens, {N}, {DType::i32})
      .tensor("dy", dy, {N, C}, {DType::fp32, DType::bf16, DType::fp16})
      .tensor("dtoken_table", dtoken_table, {dtoken_table.shape[0], C}, {DType::fp32})
      .optional("dposition_table", dposition_table, {dposition_table.shape[0], C}, {DType::fp32});
  if (dposition_table) check.tensor("positions", positions, {N}, {DType::i32});
  return sizes;
}

}  // namespace penstock::math
