#include "kernels/cpu/embedding.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/cpu/element.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/stream.h"
#include "kernels/math/embedding_check.h"
#include "kernels/math/with_element.h"

namespace penstock::cpu {
namespace {

constexpr int64_t forward_tokens = 16;  ///< tokens in one piece of the forward pass
constexpr int64_t channel_block = 64;   ///< channels in one piece of the backward pass

template <class T>
void forward_rows(const Tensor& tokens, const Tensor& positions, const Tensor& token_table,
                  const Tensor& position_table, const Tensor& y, int64_t begin, int64_t end) {
  const int64_t channels = y.shape[1];
  for (int64_t n = begin; n < end; ++n) {
    const T* token = token_table.as<const T>() + tokens.as<const int32_t>()[n] * channels;
    T* out = y.as<T>() + n * channels;
    if (!position_table) {
      std::copy(token, token + channels, out);
      continue;
    }
    const T* position = position_table.as<const T>() + positions.as<const int32_t>()[n] * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      store(out[c], static_cast<float>(token[c]) + static_cast<float>(position[c]));
    }
  }
}

/// Adds channels [begin, end) of every row of dy to the row of `table` that `rows` names, in ascending order.
template <class T>
void add_rows(const Tensor& dy, const Tensor& rows, const Tensor& table, int64_t begin, int64_t end) {
  const int64_t channels = dy.shape[1];
  for (int64_t n = 0; n < dy.shape[0]; ++n) {
    const T* __restrict in = dy.as<const T>() + n * channels;
    float* __restrict out = table.as<float>() + rows.as<const int32_t>()[n] * channels;
    for (int64_t c = begin; c < end; ++c) out[c] += static_cast<float>(in[c]);
  }
}

class CpuEmbedding final : public math::Embedding {
 public:
  math::Support supports(DType dtype) const override {
    if (dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16) return math::Support::yes();
    return math::Support::no(fmt::format("embeddings are fp32, bf16 or fp16, not {}", name_of(dtype)));
  }

  void forward(Stream& stream, Tensor tokens, Tensor positions, Tensor token_table, Tensor position_table,
               Tensor y) override {
    const int64_t N = math::check_embedding_forward(tokens, positions, token_table, position_table, y).tokens;
    math::with_element(y.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("embedding forward", [=] {
        parallel_ranges(N, forward_tokens, [&](int64_t begin, int64_t end) {
          forward_rows<T>(tokens, positions, token_table, position_table, y, begin, end);
        });
      });
    });
  }

  void backward(Stream& stream, Tensor dy, Tensor tokens, Tensor positions, Tensor dtoken_table,
                Tensor dposition_table) override {
    const int64_t C =
        math::check_embedding_backward(dy, tokens, positions, dtoken_table, dposition_table).channels;
    math::with_element(dy.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("embedding backward", [=] {
        // Threads share channels, not tokens: each sum runs over ascending tokens whatever their number.
        parallel_ranges(C, channel_block, [&](int64_t begin, int64_t end) {
          add_rows<T>(dy, tokens, dtoken_table, begin, end);
          if (dposition_table) add_rows<T>(dy, positions, dposition_table, begin, end);
        });
      });
    });
  }
};

}  // namespace

std::unique_ptr<math::Embedding> make_embedding(Device& /*device*/) {
  return std::make_unique<CpuEmbedding>();
}

}  // namespace penstock::cpu
