#include "kernels/math/optimizer.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/reference/optimizer.h"
#include "tests/kernels/math/operation.h"
#include "tests/kernels/math/random_sizes.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

using math::Optimizer;

constexpr Implementations<Optimizer> optimizer{reference::make_optimizer, under_test::make_optimizer};

void check_adamw(int64_t count, bool with_copy, int32_t apply, DType copy_type = DType::bf16) {
  const math::StepScalars scalars{.step = 3,
                                  .learning_rate = 0.01F,
                                  .bias_correction1 = 0.3439F,
                                  .bias_correction2 = 0.1855F,
                                  .clip_factor = 0.7F,
                                  .apply = apply};
  const math::AdamWConstants constants{.beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F, .weight_decay = 0.1F};
  Operation operation(fmt::format("adamw {} elements, copy {}, apply {}", count, with_copy, apply),
                      DType::fp32);
  const int parameter = operation.accumulated("parameter", DType::fp32, {count});
  const int gradient = operation.input("gradient", DType::fp32, {count});
  const int moment1 = operation.accumulated("moment1", DType::fp32, {count}, 0.1);
  std::vector<double> squares(static_cast<size_t>(count));
  for (double& value : squares)
    value = std::abs(std::normal_distribution<double>()(operation.random())) * 0.01;
  const int moment2 = operation.updated("moment2", DType::fp32, {count}, squares);
  const int copy = operation.accumulated("copy", copy_type, {count});
  operation.check(optimizer, [&](Optimizer& family, Call& call) {
    family.adamw(call.stream(), call[parameter], call[gradient], call[moment1], call[moment2],
                 with_copy ? call[copy] : Tensor(), constants, call.copy_of(scalars));
  });
}

TEST(AdamW, AgreesWithTheReference) {
  for (const int64_t count : {1, 15, 16, 1000, 40001}) {
    check_adamw(count, false, 1);
    check_adamw(count, true, 1);
    check_adamw(count, true, 1, DType::fp16);
  }
}

TEST(AdamW, AgreesWithTheReferenceOnRandomSizes) {
  std::mt19937_64 random = random_shapes(8);
  for (int i = 0; i < 4; ++i) check_adamw(random_size(random, 20000), i % 2 == 0, 1);
}

TEST(AdamW, ChangesNothingWhenToldNotToApply) {
  Operation operation("adamw that does not apply", DType::fp32);
  const math::StepScalars scalars{.learning_rate = 1.0F, .apply = 0};
  // As inputs: the harness fails if one of them changes.
  const int parameter = operation.input("parameter", DType::fp32, {100});
  const int gradient = operation.input("gradient", DType::fp32, {100});
  const int moment1 = operation.input("moment1", DType::fp32, {100});
  const int moment2 = operation.input("moment2", DType::fp32, {100});
  const int copy = operation.input("copy", DType::bf16, {100});
  operation.check(optimizer, [&](Optimizer& family, Call& call) {
    family.adamw(call.stream(), call[parameter], call[gradient], call[moment1], call[moment2], call[copy], {},
                 call.copy_of(scalars));
  });
}

// One step from zero moments moves every parameter by the learning rate against its gradient, plus decay.
TEST(AdamW, FirstStepIsTheSignOfTheGradient) {
  const math::StepScalars scalars{
      .learning_rate = 0.5F, .bias_correction1 = 1.0F - 0.9F, .bias_correction2 = 1.0F - 0.95F};
  Operation operation("first step", DType::fp32);
  const int parameter = operation.updated("parameter", DType::fp32, {3}, {1, 2, 3});
  const int gradient = operation.given("gradient", DType::fp32, {3}, {4, -0.25, 1000});
  const int moment1 = operation.updated("moment1", DType::fp32, {3}, {0, 0, 0});
  const int moment2 = operation.updated("moment2", DType::fp32, {3}, {0, 0, 0});
  const auto run = [&](Optimizer& family, Call& call) {
    family.adamw(call.stream(), call[parameter], call[gradient], call[moment1], call[moment2], {}, {},
                 call.copy_of(scalars));
  };
  operation.check(optimizer, run);
  const std::vector<double> moved = operation.reference_result(optimizer, parameter, run);
  EXPECT_NEAR(moved[0], 1 - 0.5 - 0.05 * 1, 1e-6);
  EXPECT_NEAR(moved[1], 2 + 0.5 - 0.05 * 2, 1e-6);
  EXPECT_NEAR(moved[2], 3 - 0.5 - 0.05 * 3, 1e-6);
}

}  // namespace
}  // namespace penstock::testing
