// What CUDA's AdamW has beyond the interface: many parameters a launch, and stochastic rounding.
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/optimizer_kernels.h"
#include "kernels/device/bfloat16.h"
#include "kernels/math/philox.h"
#include "tests/kernels/cuda/kernel_memory.h"
#include "tests/kernels/math/random_sizes.h"

namespace penstock::testing {
namespace {

/// A parameter with all that belongs to it.
struct Parameter {
  Parameter(std::mt19937_64& random, int64_t elements, uint32_t name) : identity(name) {
    std::normal_distribution<float> normal;
    const auto count = static_cast<size_t>(elements);
    for (KernelVector<float>* values : {&master, &gradient, &moment1, &moment2}) {
      values->resize(count);
      for (float& value : *values) value = normal(random);
    }
    for (float& value : moment2) value = std::abs(value);
    copy.resize(count);
  }
  cuda::AdamWTensor tensor() {
    return {.parameter = master.data(),
            .gradient = gradient.data(),
            .moment1 = moment1.data(),
            .moment2 = moment2.data(),
            .copy = copy.data(),
            .elements = static_cast<int64_t>(master.size()),
            .weight_decay = identity % 2 == 0 ? 0.1F : 0.0F,
            .identity = identity};
  }
  uint32_t identity;
  KernelVector<float> master, gradient, moment1, moment2;
  KernelVector<bfloat16> copy;
};

/// Steps from `tensors`, done when it returns.
void run_adamw(std::span<const cuda::AdamWTensor> tensors, bool stochastic_rounding) {
  const KernelVector<math::StepScalars> scalars(1, {.step = 0x1'0000'0005ULL,
                                                    .learning_rate = 0.01F,
                                                    .bias_correction1 = 0.3F,
                                                    .bias_correction2 = 0.2F,
                                                    .clip_factor = 0.5F});
  cuda::adamw(nullptr, tensors,
              {.beta1 = 0.9F,
               .beta2 = 0.95F,
               .epsilon = 1e-8F,
               .scalars = scalars.data(),
               .stochastic_rounding = stochastic_rounding,
               .seed = 0x1234'5678'9abc'def0ULL});
  kernel_memory::finish();
}

TEST(MultiTensorAdamW, HasTheBitsOfOneLaunchAParameter) {
  std::mt19937_64 random = random_shapes(12);
  std::vector<Parameter> together;
  for (uint32_t i = 0; i < 70; ++i) together.emplace_back(random, random_size(random, 9000), i);
  std::vector<Parameter> apart = together;
  std::vector<cuda::AdamWTensor> tensors;
  for (Parameter& parameter : together) tensors.push_back(parameter.tensor());
  run_adamw(tensors, false);
  for (Parameter& parameter : apart) {
    const cuda::AdamWTensor tensor = parameter.tensor();
    run_adamw({&tensor, 1}, false);
  }
  for (size_t i = 0; i < together.size(); ++i) {
    EXPECT_EQ(together[i].master, apart[i].master) << i;
    EXPECT_EQ(together[i].moment1, apart[i].moment1) << i;
    EXPECT_EQ(together[i].moment2, apart[i].moment2) << i;
    for (size_t e = 0; e < together[i].copy.size(); ++e) {
      ASSERT_EQ(together[i].copy[e].bits, bfloat16(together[i].master[e]).bits) << i << ", element " << e;
    }
  }
}

TEST(StochasticRounding, IsWhatTheKeyedNumbersSay) {
  std::mt19937_64 random = random_shapes(13);
  for (const int64_t count : {int64_t{1}, int64_t{7}, random_size(random, 9000)}) {
    Parameter parameter(random, count, 0x00abcdef);
    const cuda::AdamWTensor tensor = parameter.tensor();
    run_adamw({&tensor, 1}, true);
    for (uint32_t e = 0; e < count; ++e) {
      const auto words = math::philox({e / 4, 0, 5, 3U << 24 | 0x00abcdefU}, {0x9abcdef0U, 0x12345678U});
      const uint32_t raised = std::bit_cast<uint32_t>(parameter.master[e]) + (words[e % 4] & 0xffffU);
      ASSERT_EQ(parameter.copy[e].bits, raised >> 16) << "element " << e;
    }
  }
}

TEST(StochasticRounding, IsRightOnAverageAndKeepsNaN) {
  std::mt19937_64 random = random_shapes(14);
  Parameter parameter(random, 40000, 1);
  // Nothing moves: no gradient, no momentum, no decay. A quarter of the way from one bf16 to the next.
  for (KernelVector<float>* values : {&parameter.gradient, &parameter.moment1}) values->assign(40000, 0.0F);
  parameter.master.assign(40000, 1.0F + 0x1p-9F);
  parameter.master[0] = NAN;
  const cuda::AdamWTensor tensor = parameter.tensor();
  run_adamw({&tensor, 1}, true);
  EXPECT_TRUE(std::isnan(static_cast<float>(parameter.copy[0])));
  int up = 0;
  for (size_t e = 1; e < parameter.copy.size(); ++e) {
    const auto value = static_cast<float>(parameter.copy[e]);
    ASSERT_TRUE(value == 1.0F || value == 1.0F + 0x1p-7F) << value;
    up += value > 1.0F ? 1 : 0;
  }
  EXPECT_NEAR(up, 10000, 5 * 87);  // five standard deviations
}

}  // namespace
}  // namespace penstock::testing
