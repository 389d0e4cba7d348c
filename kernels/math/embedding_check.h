#pragma once

#include <cstdint>

#include "kernels/device/tensor.h"

/// Argument checks of the Embedding family, shared by the implementations that compute on fp32, bf16 and
/// fp16: UsageError with names, types and shapes.
namespace penstock::math {

/// N and C of one call.
struct EmbeddingSizes {
  int64_t tokens = 0;
  int64_t channels = 0;
};

EmbeddingSizes check_embedding_forward(const Tensor& tokens, const Tensor& positions,
                                       const Tensor& token_table, const Tensor& position_table,
                                       const Tensor& y);
EmbeddingSizes check_embedding_backward(const Tensor& dy, const Tensor& tokens, const Tensor& positions,
                                        const Tensor& dtoken_table, const Tensor& dposition_table);

}  // namespace penstock::math
