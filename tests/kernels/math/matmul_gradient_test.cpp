#include <numeric>

#include <gtest/gtest.h>

#include "kernels/reference/embedding.h"
#include "kernels/reference/gemm.h"
#include "kernels/reference/head.h"
#include "tests/kernels/math/gradient.h"

namespace penstock::testing {
namespace {

TEST(Gradient, Linear) {
  constexpr int64_t N = 3;
  constexpr int64_t C = 5;
  constexpr int64_t O = 4;
  std::mt19937_64 numbers(1);
  Doubles x = normal_values(numbers, N * C);
  Doubles w = normal_values(numbers, O * C);
  Doubles bias = normal_values(numbers, O);
  Doubles dy = normal_values(numbers, N * O);
  Doubles y(N * O);
  Doubles dx(N * C);
  Doubles dw(O * C);
  Doubles dbias(O);
  const ReferenceRun<math::Gemm> run(reference::make_gemm);
  const auto plan =
      run.family->plan_linear({.tokens = N, .in = C, .out = O, .dtype = DType::fp64, .bias = true});
  const auto loss = [&] {
    plan->forward(*run.stream, tensor_of(x, {N, C}), tensor_of(w, {O, C}), tensor_of(bias, {O}),
                  tensor_of(y, {N, O}), {});
    run.stream->synchronize();
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  plan->backward_input(*run.stream, tensor_of(dy, {N, O}), tensor_of(w, {O, C}), tensor_of(dx, {N, C}), {});
  plan->backward_weight(*run.stream, tensor_of(dy, {N, O}), tensor_of(x, {N, C}), tensor_of(dw, {O, C}), {});
  plan->backward_bias(*run.stream, tensor_of(dy, {N, O}), tensor_of(dbias, {O}));
  run.stream->synchronize();
  expect_gradient("x", x, loss, dx);
  expect_gradient("w", w, loss, dw);
  expect_gradient("bias", bias, loss, dbias);
}

TEST(Gradient, HeadWithPaddingAndIgnoredTargets) {
  constexpr int64_t N = 4;
  constexpr int64_t C = 3;
  constexpr int64_t rows = 7;
  constexpr int64_t vocab = 5;
  const math::StepScalars scalars{.gradient_scale = 0.375F};
  std::mt19937_64 numbers(2);
  Doubles x = normal_values(numbers, N * C);
  Doubles w = normal_values(numbers, rows * C);
  std::vector<int32_t> targets = {4, -1, 0, 2};
  Doubles losses(N);
  Doubles dx(N * C);
  Doubles dw(rows * C);
  const ReferenceRun<math::Head> run(reference::make_head);
  const auto plan =
      run.family->plan({.tokens = N, .hidden = C, .rows = rows, .vocab = vocab, .dtype = DType::fp64});
  const Tensor target_tensor(targets.data(), DType::i32, {N});
  const auto loss = [&] {
    plan->loss(*run.stream, tensor_of(x, {N, C}), tensor_of(w, {rows, C}), target_tensor,
               tensor_of(losses, {N}), {});
    run.stream->synchronize();
    return 0.375 * std::accumulate(losses.begin(), losses.end(), 0.0);
  };
  plan->loss_and_backward(*run.stream, tensor_of(x, {N, C}), tensor_of(w, {rows, C}), target_tensor, &scalars,
                          tensor_of(losses, {N}), tensor_of(dx, {N, C}), tensor_of(dw, {rows, C}), {});
  run.stream->synchronize();
  expect_gradient("x", x, loss, dx);
  expect_gradient("w", w, loss, dw);
  for (int64_t c = 0; c < C; ++c) {
    EXPECT_EQ(dx[C + c], 0) << "a token without target has no gradient";
    EXPECT_EQ(dw[vocab * C + c], 0) << "padding has no gradient";
  }
}

TEST(Gradient, Embedding) {
  constexpr int64_t N = 6;
  constexpr int64_t C = 3;
  constexpr int64_t V = 4;
  constexpr int64_t T = 3;
  std::mt19937_64 numbers(3);
  Doubles token_table = normal_values(numbers, V * C);
  Doubles position_table = normal_values(numbers, T * C);
  Doubles dy = normal_values(numbers, N * C);
  Doubles y(N * C);
  Doubles dtoken_table(V * C);
  Doubles dposition_table(T * C);
  std::vector<int32_t> tokens = {3, 0, 3, 3, 2, 0};
  std::vector<int32_t> positions = {0, 1, 2, 0, 1, 2};
  const Tensor token_tensor(tokens.data(), DType::i32, {N});
  const Tensor position_tensor(positions.data(), DType::i32, {N});
  const ReferenceRun<math::Embedding> run(reference::make_embedding);
  const auto loss = [&] {
    run.family->forward(*run.stream, token_tensor, position_tensor, tensor_of(token_table, {V, C}),
                        tensor_of(position_table, {T, C}), tensor_of(y, {N, C}));
    run.stream->synchronize();
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  run.family->backward(*run.stream, tensor_of(dy, {N, C}), token_tensor, position_tensor,
                       tensor_of(dtoken_table, {V, C}), tensor_of(dposition_table, {T, C}));
  run.stream->synchronize();
  expect_gradient("token table", token_table, loss, dtoken_table);
  expect_gradient("position table", position_table, loss, dposition_table);
}

}  // namespace
}  // namespace penstock::testing
