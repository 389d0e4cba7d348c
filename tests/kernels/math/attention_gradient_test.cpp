#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include "kernels/reference/attention.h"
#include "tests/kernels/math/gradient.h"

namespace penstock::testing {
namespace {

void compare_gradients(const math::AttentionShape& shape, std::vector<int32_t> document_starts) {
  const int64_t n = shape.batch * shape.tokens;
  const int64_t row = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  const int64_t out_row = shape.heads * shape.head_dim;
  std::mt19937_64 numbers(31);
  const Tensor starts = document_starts.empty() ? Tensor() : Tensor(document_starts.data(), DType::i32, {n});
  Doubles qkv = normal_values(numbers, n * row);
  Doubles dout = normal_values(numbers, n * out_row);
  Doubles out(static_cast<size_t>(n * out_row));
  Doubles lse(static_cast<size_t>(shape.heads * n));
  Doubles dqkv(static_cast<size_t>(n * row));
  const Shape lse_shape{shape.batch, shape.heads, shape.tokens};
  const ReferenceRun<math::Attention> run(reference::make_attention);
  const auto plan = run.family->plan(shape);
  const auto loss = [&] {
    plan->forward(*run.stream, tensor_of(qkv, {n, row}), starts, tensor_of(out, {n, out_row}),
                  tensor_of(lse, lse_shape), {});
    run.stream->synchronize();
    return std::inner_product(out.begin(), out.end(), dout.begin(), 0.0);
  };
  loss();
  plan->backward(*run.stream, tensor_of(dout, {n, out_row}), tensor_of(qkv, {n, row}), starts,
                 tensor_of(out, {n, out_row}), tensor_of(lse, lse_shape), tensor_of(dqkv, {n, row}), {});
  run.stream->synchronize();
  expect_gradient("qkv", qkv, loss, dqkv);
}

TEST(Gradient, AttentionOfFourQueryHeadsAKeyHead) {
  compare_gradients({1, 5, 4, 1, 2, DType::fp64}, {});
}

TEST(Gradient, AttentionOfTwoSequences) {
  compare_gradients({2, 4, 2, 2, 3, DType::fp64}, {});
}

TEST(Gradient, AttentionWithinDocuments) {
  compare_gradients({2, 4, 2, 1, 3, DType::fp64}, {0, 0, 2, 2, 0, 1, 1, 1});
}

}  // namespace
}  // namespace penstock::testing
