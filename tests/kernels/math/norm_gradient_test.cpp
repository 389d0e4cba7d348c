#include <numeric>

#include <gtest/gtest.h>

#include "kernels/reference/norm.h"
#include "tests/kernels/math/gradient.h"

namespace penstock::testing {
namespace {

constexpr float epsilon = 1e-3F;

TEST(Gradient, LayerNorm) {
  constexpr int64_t N = 3;
  constexpr int64_t C = 5;
  std::mt19937_64 numbers(11);
  Doubles x = normal_values(numbers, N * C);
  Doubles weight = normal_values(numbers, C);
  Doubles bias = normal_values(numbers, C);
  Doubles dy = normal_values(numbers, N * C);
  Doubles dresidual = normal_values(numbers, N * C);
  Doubles y(N * C);
  Doubles mean(N);
  Doubles rstd(N);
  Doubles dx(N * C);
  Doubles dweight(C);
  Doubles dbias(C);
  const ReferenceRun<math::Norm> run(reference::make_norm);
  const auto forward = [&] {
    run.family->layer_norm_forward(*run.stream, tensor_of(x, {N, C}), tensor_of(weight, {C}),
                                   tensor_of(bias, {C}), epsilon, tensor_of(y, {N, C}), tensor_of(mean, {N}),
                                   tensor_of(rstd, {N}));
    run.stream->synchronize();
  };
  // x also goes round the norm, as a residual does.
  const auto loss = [&] {
    forward();
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0) +
           std::inner_product(x.begin(), x.end(), dresidual.begin(), 0.0);
  };
  forward();
  run.family->layer_norm_backward(*run.stream, tensor_of(dy, {N, C}), tensor_of(x, {N, C}),
                                  tensor_of(weight, {C}), tensor_of(mean, {N}), tensor_of(rstd, {N}),
                                  tensor_of(dresidual, {N, C}), tensor_of(dx, {N, C}),
                                  tensor_of(dweight, {C}), tensor_of(dbias, {C}));
  run.stream->synchronize();
  expect_gradient("x", x, loss, dx);
  expect_gradient("weight", weight, loss, dweight);
  expect_gradient("bias", bias, loss, dbias);
}

TEST(Gradient, RmsNorm) {
  constexpr int64_t N = 4;
  constexpr int64_t C = 6;
  std::mt19937_64 numbers(12);
  Doubles x = normal_values(numbers, N * C);
  Doubles weight = normal_values(numbers, C);
  Doubles dy = normal_values(numbers, N * C);
  Doubles y(N * C);
  Doubles rstd(N);
  Doubles dx(N * C);
  Doubles dweight(C);
  const ReferenceRun<math::Norm> run(reference::make_norm);
  const auto loss = [&] {
    run.family->rms_norm_forward(*run.stream, tensor_of(x, {N, C}), tensor_of(weight, {C}), epsilon,
                                 tensor_of(y, {N, C}), tensor_of(rstd, {N}));
    run.stream->synchronize();
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  loss();
  run.family->rms_norm_backward(*run.stream, tensor_of(dy, {N, C}), tensor_of(x, {N, C}),
                                tensor_of(weight, {C}), tensor_of(rstd, {N}), {}, tensor_of(dx, {N, C}),
                                tensor_of(dweight, {C}));
  run.stream->synchronize();
  expect_gradient("x", x, loss, dx);
  expect_gradient("weight", weight, loss, dweight);
}

TEST(Gradient, HeadNorm) {
  constexpr int64_t N = 2;
  constexpr int64_t H = 3;
  constexpr int64_t G = 1;
  constexpr int64_t D = 4;
  constexpr int64_t W = (H + 2 * G) * D;
  std::mt19937_64 numbers(13);
  Doubles qkv = normal_values(numbers, N * W);
  Doubles weight_q = normal_values(numbers, D);
  Doubles weight_k = normal_values(numbers, D);
  const Doubles dout = normal_values(numbers, N * W);
  Doubles out(N * W);
  Doubles rstd(N * (H + G));
  Doubles dweight_q(D);
  Doubles dweight_k(D);
  const ReferenceRun<math::Norm> run(reference::make_norm);
  const auto loss = [&] {
    run.family->head_norm_forward(*run.stream, tensor_of(qkv, {N, W}), tensor_of(weight_q, {D}),
                                  tensor_of(weight_k, {D}), epsilon, H, G, tensor_of(out, {N, W}),
                                  tensor_of(rstd, {N, H + G}));
    run.stream->synchronize();
    return std::inner_product(out.begin(), out.end(), dout.begin(), 0.0);
  };
  loss();
  Doubles dqkv = dout;
  run.family->head_norm_backward(*run.stream, tensor_of(dqkv, {N, W}), tensor_of(qkv, {N, W}),
                                 tensor_of(weight_q, {D}), tensor_of(weight_k, {D}),
                                 tensor_of(rstd, {N, H + G}), H, G, tensor_of(dweight_q, {D}),
                                 tensor_of(dweight_k, {D}));
  run.stream->synchronize();
  expect_gradient("qkv", qkv, loss, dqkv);
  expect_gradient("weight_q", weight_q, loss, dweight_q);
  expect_gradient("weight_k", weight_k, loss, dweight_k);
}

}  // namespace
}  // namespace penstock::testing
