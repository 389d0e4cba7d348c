#include "kernels/cpu/vector_math.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// |found − exact| in units of the last place of the exact value.
double ulps(float found, double exact) {
  const auto rounded = static_cast<float>(exact);
  const double unit = static_cast<double>(std::nextafter(std::abs(rounded), infinity)) - std::abs(rounded);
  return std::abs(found - exact) / unit;
}

TEST(VectorMath, ExpIsCloseToExact) {
  std::mt19937 numbers(1);
  std::uniform_real_distribution<float> uniform(-87.0F, 88.7F);
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const float x = uniform(numbers) * (i % 2 == 0 ? 1.0F : 0.01F);
    worst = std::max(worst, ulps(cpu::vector_exp(x), std::exp(static_cast<double>(x))));
  }
  EXPECT_LE(worst, 1.2);
}

TEST(VectorMath, ExpAtItsEnds) {
  EXPECT_EQ(cpu::vector_exp(0.0F), 1.0F);
  EXPECT_EQ(cpu::vector_exp(-0.0F), 1.0F);
  EXPECT_EQ(cpu::vector_exp(-infinity), 0.0F);
  EXPECT_EQ(cpu::vector_exp(-1e30F), 0.0F);
  EXPECT_EQ(cpu::vector_exp(infinity), infinity);
  EXPECT_EQ(cpu::vector_exp(89.0F), infinity);
  EXPECT_LT(cpu::vector_exp(88.7F), infinity);
  EXPECT_TRUE(std::isnan(cpu::vector_exp(std::nanf(""))));
  EXPECT_NEAR(cpu::vector_exp(-95.0F) / std::exp(-95.0), 1.0, 1e-4) << "subnormal";
}

TEST(VectorMath, LogIsCloseToExact) {
  std::mt19937 numbers(2);
  std::uniform_int_distribution<uint32_t> normal_positive(0x00800000U, 0x7f7fffffU);
  std::uniform_real_distribution<float> around_one(0.5F, 2.0F);
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const float x = i % 2 == 0 ? std::bit_cast<float>(normal_positive(numbers)) : around_one(numbers);
    worst = std::max(worst, ulps(cpu::vector_log(x), std::log(static_cast<double>(x))));
  }
  EXPECT_LE(worst, 1.5);
  EXPECT_EQ(cpu::vector_log(1.0F), 0.0F);
}

}  // namespace
}  // namespace penstock::testing
