#include "kernels/reference/embedding.h"

#include "kernels/cpu/stream.h"
#include "kernels/math/check.h"
#include "kernels/reference/element.h"

namespace penstock::reference {
namespace {

using cpu::CpuStream;
using math::ArgumentCheck;

class ReferenceEmbedding final : public math::Embedding {
 public:
  math::Support supports(DType /*dtype*/) const override { return math::Support::yes(); }

  void forward(Stream& stream, Tensor tokens, Tensor positions, Tensor token_table, Tensor position_table,
               Tensor y) override {
    const int64_t N = tokens.shape[0];
    const int64_t C = token_table.shape[1];
    const ArgumentCheck check("embedding forward");
    check.tensor("tokens", tokens, {N}, {DType::i32})
        .tensor("y", y, {N, C}, {DType::fp32, DType::bf16, DType::fp16, DType::fp64})
        .tensor("token_table", token_table, {token_table.shape[0], C}, {y.dtype})
        .optional("position_table", position_table, {position_table.shape[0], C}, {y.dtype});
    if (position_table) check.tensor("positions", positions, {N}, {DType::i32});
    CpuStream::of(stream).enqueue("reference embedding forward", [=] {
      for (int64_t n = 0; n < N; ++n) {
        for (int64_t c = 0; c < C; ++c) {
          double value = load(token_table, tokens.as<const int32_t>()[n] * C + c);
          if (position_table) value += load(position_table, positions.as<const int32_t>()[n] * C + c);
          store(y, n * C + c, value);
        }
      }
    });
  }

  void backward(Stream& stream, Tensor dy, Tensor tokens, Tensor positions, Tensor dtoken_table,
                Tensor dposition_table) override {
    const int64_t N = tokens.shape[0];
    const int64_t C = dtoken_table.shape[1];
    const ArgumentCheck check("embedding backward");
    check.tensor("tokens", tokens, {N}, {DType::i32})
        .tensor("dy", dy, {N, C}, {DType::fp32, DType::bf16, DType::fp16, DType::fp64})
        .tensor("dtoken_table", dtoken_table, {dtoken_table.shape[0], C}, {DType::fp32, DType::fp64})
        .optional("dposition_table", dposition_table, {dposition_table.shape[0], C}, {dtoken_table.dtype});
    if (dposition_table) check.tensor("positions", positions, {N}, {DType::i32});
    CpuStream::of(stream).enqueue("reference embedding backward", [=] {
      const auto add = [&](const Tensor& table, const Tensor& rows, int64_t n, int64_t c) {
        const int64_t i = rows.as<const int32_t>()[n] * C + c;
        store(table, i, load(table, i) + load(dy, n * C + c));
      };
      for (int64_t n = 0; n < N; ++n) {
        for (int64_t c = 0; c < C; ++c) {
          add(dtoken_table, tokens, n, c);
          if (dposition_table) add(dposition_table, positions, n, c);
        }
      }
    });
  }
};

}  // namespace

std::unique_ptr<math::Embedding> make_embedding(Device& /*device*/) {
  return std::make_unique<ReferenceEmbedding>();
}

}  // namespace penstock::reference
