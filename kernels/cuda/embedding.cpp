#include "kernels/cuda/embedding.h"

#include "kernels/cuda/embedding_kernels.h"
#include "kernels/cuda/with_element.h"
#include "kernels/math/embedding_check.h"

namespace penstock::cuda {
namespace {

class CudaEmbedding final : public math::Embedding {
 public:
  math::Support supports(DType dtype) const override { return supports_element(dtype); }

  void forward(Stream& stream, Tensor tokens, Tensor positions, Tensor token_table, Tensor position_table,
               Tensor y) override {
    const math::EmbeddingSizes sizes =
        math::check_embedding_forward(tokens, positions, token_table, position_table, y);
    with_element(y.dtype, [&]<class T>(T) {
      embedding_forward<T>(handle_of(stream), {.tokens = tokens.as<const int32_t>(),
                                               .positions = positions.as<const int32_t>(),
                                               .token_table = token_table.as<const T>(),
                                               .position_table = position_table.as<const T>(),
                                               .y = y.as<T>(),
                                               .rows = sizes.tokens,
                                               .channels = sizes.channels});
    });
  }

  void backward(Stream& stream, Tensor dy, Tensor tokens, Tensor positions, Tensor dtoken_table,
                Tensor dposition_table) override {
    const math::EmbeddingSizes sizes =
        math::check_embedding_backward(dy, tokens, positions, dtoken_table, dposition_table);
    with_element(dy.dtype, [&]<class T>(T) {
      embedding_backward(handle_of(stream), dy.as<const T>(), tokens.as<const int32_t>(),
                         dtoken_table.as<float>(), sizes.tokens, sizes.channels);
      if (dposition_table) {
        embedding_backward(handle_of(stream), dy.as<const T>(), positions.as<const int32_t>(),
                           dposition_table.as<float>(), sizes.tokens, sizes.channels);
      }
    });
  }
};

}  // namespace

std::unique_ptr<math::Embedding> make_embedding(Device& /*device*/) {
  return std::make_unique<CudaEmbedding>();
}

}  // namespace penstock::cuda
