#include "kernels/cuda/embedding.h"

#include "kernels/cuda/embedding_kernels.h"
#include "kernels/cuda/with_element.h"
#include "kernels/math/check.h"

namespace penstock::cuda {
namespace {

using math::ArgumentCheck;

class CudaEmbedding final : public math::Embedding {
 public:
  math::Support supports(DType dtype) const override { return supports_element(dtype); }

  void forward(Stream& stream, Tensor tokens, Tensor positions, Tensor token_table, Tensor position_table,
               Tensor y) override {
    const int64_t N = tokens.shape[0];
    const int64_t C = token_table.shape[1];
    const ArgumentCheck check("embedding forward");
    check.tensor("tokens", tokens, {N}, {DType::i32})
        .tensor("y", y, {N, C}, {DType::fp32, DType::bf16})
        .tensor("token_table", token_table, {token_table.shape[0], C}, {y.dtype})
        .optional("position_table", position_table, {position_table.shape[0], C}, {y.dtype});
    if (position_table) check.tensor("positions", positions, {N}, {DType::i32});
    with_element(y.dtype, [&]<class T>(T) {
      embedding_forward<T>(handle_of(stream), {.tokens = tokens.as<const int32_t>(),
                                               .positions = positions.as<const int32_t>(),
                                               .token_table = token_table.as<const T>(),
                                               .position_table = position_table.as<const T>(),
                                               .y = y.as<T>(),
                                               .rows = N,
                                               .channels = C});
    });
  }

  void backward(Stream& stream, Tensor dy, Tensor tokens, Tensor positions, Tensor dtoken_table,
                Tensor dposition_table) override {
    const int64_t N = tokens.shape[0];
    const int64_t C = dtoken_table.shape[1];
    const ArgumentCheck check("embedding backward");
    check.tensor("tokens", tokens, {N}, {DType::i32})
        .tensor("dy", dy, {N, C}, {DType::fp32, DType::bf16})
        .tensor("dtoken_table", dtoken_table, {dtoken_table.shape[0], C}, {DType::fp32})
        .optional("dposition_table", dposition_table, {dposition_table.shape[0], C}, {DType::fp32});
    if (dposition_table) check.tensor("positions", positions, {N}, {DType::i32});
    with_element(dy.dtype, [&]<class T>(T) {
      embedding_backward(handle_of(stream), dy.as<const T>(), tokens.as<const int32_t>(),
                         dtoken_table.as<float>(), N, C);
      if (dposition_table) {
        embedding_backward(handle_of(stream), dy.as<const T>(), positions.as<const int32_t>(),
                           dposition_table.as<float>(), N, C);
      }
    });
  }
};

}  // namespace

std::unique_ptr<math::Embedding> make_embedding(Device& /*device*/) {
  return std::make_unique<CudaEmbedding>();
}

}  // namespace penstock::cuda
