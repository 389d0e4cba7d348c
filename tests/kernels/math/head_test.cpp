#include "kernels/math/head.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/reference/head.h"
#include "tests/kernels/math/operation.h"
#include "tests/kernels/math/random_sizes.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

using math::Head;
using math::HeadShape;

constexpr Implementations<Head> head{reference::make_head, under_test::make_head};

void check_head(HeadShape shape) {
  const math::StepScalars scalars{.gradient_scale = 1.0F / 37};
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    if (dtype == DType::bf16 && !under_test::multiplies_bf16()) continue;
    shape.dtype = dtype;
    const std::string name = fmt::format("head {} {} tokens {} channels {} of {} rows", name_of(dtype),
                                         shape.tokens, shape.hidden, shape.vocab, shape.rows);
    Operation operation(name, dtype);
    operation.place_at_multiples_of(under_test::product_shift);
    const int x = operation.input("x", dtype, {shape.tokens, shape.hidden});
    const int w = operation.input("w", dtype, {shape.rows, shape.hidden});
    const int targets = operation.indices("targets", DType::i32, {shape.tokens}, -1, shape.vocab - 1);
    const int only_losses = operation.output("losses of loss()", DType::fp32, {shape.tokens});
    const int losses = operation.output("losses", DType::fp32, {shape.tokens});
    const int dx = operation.output("dx", dtype, {shape.tokens, shape.hidden});
    const int dw = operation.accumulated("dw", DType::fp32, {shape.rows, shape.hidden});
    const int logits = operation.output("logits", DType::fp32, {shape.tokens, shape.vocab});
    operation.check(head, [&](Head& family, Call& call) {
      const auto plan = family.plan(shape);
      const Tensor workspace = call.workspace(plan->workspace_bytes());
      plan->loss(call.stream(), call[x], call[w], call[targets], call[only_losses], workspace);
      plan->loss_and_backward(call.stream(), call[x], call[w], call[targets], call.copy_of(scalars),
                              call[losses], call[dx], call[dw], workspace);
      plan->logits(call.stream(), call[x], call[w], call[logits], workspace);
      call.stream().synchronize();
    });
  }
}

TEST(Head, ShapesOfOneAndOddSizes) {
  for (const int64_t tokens : {1, 3, 19}) {
    check_head({.tokens = tokens, .hidden = 1, .rows = 1, .vocab = 1});
    check_head({.tokens = tokens, .hidden = 5, .rows = 33, .vocab = 31});
    check_head({.tokens = tokens, .hidden = 16, .rows = 128, .vocab = 97});
  }
}

TEST(Head, VocabularyLongerThanABlockOfTheSum) {
  check_head({.tokens = 9, .hidden = 24, .rows = 2112, .vocab = 2077});
}

TEST(Head, VocabularyOfSeveralPieces) {
  check_head({.tokens = 70, .hidden = 16, .rows = 33024, .vocab = 33001});
}

TEST(Head, SeveralBlocksOfTokens) {
  check_head({.tokens = 2 * under_test::most_head_block + 13, .hidden = 3, .rows = 16, .vocab = 13});
}

TEST(Head, RandomShapes) {
  std::mt19937_64 random = random_shapes(7);
  for (int i = 0; i < 4; ++i) {
    const int64_t vocab = random_size(random, 700);
    check_head({.tokens = random_size(random, 40),
                .hidden = random_size(random, 40),
                .rows = vocab + random_size(random, 40) - 1,
                .vocab = vocab});
  }
}

// The largest logits decide, and their differences must survive: exp of the raw values would overflow.
TEST(Head, LargeLogitsNeitherOverflowNorLosePrecision) {
  const HeadShape shape{.tokens = 3, .hidden = 1, .rows = 4, .vocab = 4};
  Operation operation("head with large logits", DType::fp32);
  operation.place_at_multiples_of(under_test::product_shift);
  const int x = operation.given("x", DType::fp32, {3, 1}, {1, 100, -1});
  const int w = operation.given("w", DType::fp32, {4, 1}, {300, 299, -300, 300.5});
  const int targets = operation.given("targets", DType::i32, {3}, {1, 3, 2});
  const int losses = operation.output("losses", DType::fp32, {3});
  const auto run = [&](Head& family, Call& call) {
    const auto plan = family.plan(shape);
    plan->loss(call.stream(), call[x], call[w], call[targets], call[losses],
               call.workspace(plan->workspace_bytes()));
    call.stream().synchronize();
  };
  operation.check(head, run);
  const std::vector<double> expected = operation.reference_result(head, losses, run);
  EXPECT_NEAR(expected[0], 1.5 + std::log(1 + std::exp(-0.5) + std::exp(-1.5)), 1e-6);
  EXPECT_EQ(expected[1], 0);
  EXPECT_EQ(expected[2], 0);
}

TEST(Head, FewerLogitsThanPlanned) {
  const HeadShape shape{.tokens = 100, .hidden = 7, .rows = 40, .vocab = 37};
  for (const int64_t tokens : {1, 8, 9, 75}) {
    Operation operation(fmt::format("logits of {} tokens", tokens), DType::fp32);
    operation.place_at_multiples_of(under_test::product_shift);
    const int x = operation.input("x", DType::fp32, {tokens, shape.hidden});
    const int w = operation.input("w", DType::fp32, {shape.rows, shape.hidden});
    const int logits = operation.output("logits", DType::fp32, {tokens, shape.vocab});
    operation.check(head, [&](Head& family, Call& call) {
      const auto plan = family.plan(shape);
      plan->logits(call.stream(), call[x], call[w], call[logits], call.workspace(plan->workspace_bytes()));
      call.stream().synchronize();
    });
  }
}

TEST(Head, RefusesMoreVocabularyThanRows) {
  const auto device = cpu::make_cpu_device({});
  const auto family = under_test::make_head(*device);
  EXPECT_TRUE(family->supports({.tokens = 1, .hidden = 1, .rows = 5, .vocab = 5}));
  EXPECT_FALSE(family->supports({.tokens = 1, .hidden = 1, .rows = 5, .vocab = 6}));
}

}  // namespace
}  // namespace penstock::testing
