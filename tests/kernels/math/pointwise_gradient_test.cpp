#include <array>
#include <numeric>

#include <gtest/gtest.h>

#include "kernels/reference/pointwise.h"
#include "tests/kernels/math/gradient.h"

namespace penstock::testing {
namespace {

TEST(Gradient, Gelu) {
  constexpr int64_t n = 27;
  std::mt19937_64 numbers(21);
  Doubles x = normal_values(numbers, n);
  Doubles dy = normal_values(numbers, n);
  Doubles y(n);
  Doubles dx(n);
  const ReferenceRun<math::Pointwise> run(reference::make_pointwise);
  const auto loss = [&] {
    run.family->gelu_forward(*run.stream, tensor_of(x, {n}), tensor_of(y, {n}));
    run.stream->synchronize();
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  run.family->gelu_backward(*run.stream, tensor_of(dy, {n}), tensor_of(x, {n}), tensor_of(dx, {n}));
  run.stream->synchronize();
  expect_gradient("x", x, loss, dx);
}

TEST(Gradient, Swiglu) {
  constexpr int64_t N = 3;
  constexpr int64_t F = 5;
  std::mt19937_64 numbers(22);
  Doubles gate_up = normal_values(numbers, N * 2 * F);
  Doubles dy = normal_values(numbers, N * F);
  Doubles y(N * F);
  Doubles dgate_up(N * 2 * F);
  const ReferenceRun<math::Pointwise> run(reference::make_pointwise);
  const auto loss = [&] {
    run.family->swiglu_forward(*run.stream, tensor_of(gate_up, {N, 2 * F}), tensor_of(y, {N, F}));
    run.stream->synchronize();
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  run.family->swiglu_backward(*run.stream, tensor_of(dy, {N, F}), tensor_of(gate_up, {N, 2 * F}),
                              tensor_of(dgate_up, {N, 2 * F}));
  run.stream->synchronize();
  expect_gradient("gate_up", gate_up, loss, dgate_up);
}

TEST(Gradient, RopeTurnedBack) {
  constexpr int64_t N = 3;
  constexpr int64_t W = 20;
  constexpr int64_t D = 6;
  std::mt19937_64 numbers(23);
  Doubles table;
  for (int i = 0; i < 7 * 3; ++i) {
    table.push_back(std::cos(i));
    table.push_back(std::sin(i));
  }
  std::array<int32_t, N> positions = {0, 6, 3};
  const Tensor where(positions.data(), DType::i32, {N});
  Doubles x = normal_values(numbers, N * W);
  const Doubles dy = normal_values(numbers, N * W);
  const ReferenceRun<math::Pointwise> run(reference::make_pointwise);
  const auto rotate = [&](Doubles& values, bool inverse) {
    run.family->rope(*run.stream, tensor_of(values, {N, W}), where, tensor_of(table, {7, D / 2, 2}), 2, D,
                     inverse);
    run.stream->synchronize();
  };
  const auto loss = [&] {
    Doubles y = x;
    rotate(y, false);
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  Doubles dx = dy;
  rotate(dx, true);
  expect_gradient("qkv", x, loss, dx);
}

TEST(Gradient, DropoutOfTheGradient) {
  constexpr int64_t N = 4;
  constexpr int64_t C = 9;
  std::mt19937_64 numbers(24);
  const math::StepScalars scalars{.step = 11};
  const math::DropoutSite site{.seed = 3, .site = 2, .probability = 0.4F};
  std::array<int64_t, 2> ids = {5, 6};
  const Tensor samples(ids.data(), DType::i64, {2});
  Doubles x = normal_values(numbers, N * C);
  Doubles dy = normal_values(numbers, N * C);
  Doubles y(N * C);
  Doubles dx(N * C);
  const ReferenceRun<math::Pointwise> run(reference::make_pointwise);
  const auto drop = [&](Doubles& from, Doubles& to) {
    run.family->dropout(*run.stream, tensor_of(from, {N, C}), samples, &scalars, site, tensor_of(to, {N, C}));
    run.stream->synchronize();
  };
  const auto loss = [&] {
    drop(x, y);
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  drop(dy, dx);
  expect_gradient("x", x, loss, dx);
}

}  // namespace
}  // namespace penstock::testing
