#include "trainer/budget/estimate.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::budget {
namespace {

/// Values in a row with variance sigma² and correlation c^k.
std::vector<double> correlated(size_t count, double sigma, double correlation, std::mt19937& random,
                               double mean = 1) {
  std::normal_distribution<double> normal;
  double state = normal(random);
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(mean + sigma * state);
    state = correlation * state + std::sqrt(1 - correlation * correlation) * normal(random);
  }
  return values;
}

TEST(VarianceOfMean, IsTheSumOverAllPairs) {
  for (const double c : {0.0, 0.3, 0.9}) {
    for (const size_t n : {1U, 2U, 7U, 60U}) {
      double sum = 0;
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < n; ++j)
          sum += std::pow(c, std::abs(static_cast<double>(i) - static_cast<double>(j)));
      }
      EXPECT_NEAR(variance_of_mean(c, n), sum / static_cast<double>(n * n), 1e-5);
    }
  }
}

TEST(StudentQuantile, IsTheTables) {
  EXPECT_NEAR(student_quantile(0.999, 4), 7.173, 0.08);
  EXPECT_NEAR(student_quantile(0.999, 10), 4.144, 0.005);
  EXPECT_NEAR(student_quantile(0.99, 4), 3.747, 0.02);
  EXPECT_NEAR(student_quantile(0.99, 30), 2.457, 0.001);
  EXPECT_NEAR(student_quantile(0.975, 1000), 1.962, 0.001);
}

TEST(NoiseOf, FindsSigmaAndCorrelation) {
  std::mt19937 random(5);
  for (const double c : {0.0, 0.5, 0.9}) {
    double sigma = 0;
    double correlation = 0;
    constexpr int repeats = 40;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      std::vector<std::vector<double>> series;
      for (int rank = 0; rank < 8; ++rank) series.push_back(correlated(60, 0.05, c, random, 1 + rank));
      const SeriesNoise noise = noise_of(series);
      sigma += noise.sigma / repeats;
      correlation += noise.correlation / repeats;
    }
    // Where sixty steps are few, both err to the careful side.
    EXPECT_NEAR(sigma, 0.05, c < 0.9 ? 0.003 : 0.01) << c;
    EXPECT_NEAR(correlation, c, 0.04) << c;
    EXPECT_GE(correlation, c - 0.02) << c;
  }
}

TEST(NoiseOf, ConstantSeriesHaveNone) {
  const std::vector<std::vector<double>> series(3, std::vector<double>(20, 1.5));
  EXPECT_EQ(noise_of(series).sigma, 0);
  EXPECT_EQ(noise_of(series).correlation, 0);
}

TEST(NoiseOf, RoundingIsNoCorrelation) {
  std::vector<double> values;
  for (int i = 0; i < 60; ++i) values.push_back(1 + 1e-14 * (i / 10));
  const std::vector<std::vector<double>> series{values};
  EXPECT_EQ(noise_of(series).correlation, 0);
  EXPECT_TRUE(estimate_mean(values, 0).says_something());
}

// Whatever the correlation, a bound at 99 % is broken about once in a hundred times.
TEST(EstimateMean, BoundsHoldAsOftenAsTheySay) {
  std::mt19937 random(9);
  for (const double c : {0.0, 0.5, 0.9}) {
    const size_t count = c < 0.9 ? 60 : 200;
    int broken = 0;
    constexpr int repeats = 4000;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      const Estimate estimate = estimate_mean(correlated(count, 0.03, c, random, 0), c);
      broken += estimate.lower(0.99) > 0 ? 1 : 0;
    }
    EXPECT_LT(broken, repeats * 16 / 1000) << c;
    EXPECT_GT(broken, c < 0.9 ? repeats * 2 / 1000 : 0) << c;
  }
}

TEST(EstimateMean, FewIndependentValuesSayNothing) {
  std::mt19937 random(2);
  const Estimate estimate = estimate_mean(correlated(40, 0.03, 0.9, random), 0.9);
  EXPECT_FALSE(estimate.says_something());
  EXPECT_TRUE(std::isinf(estimate.lower(0.99)));
  EXPECT_TRUE(std::isinf(estimate.upper(0.99)));
}

TEST(EstimateMean, OneHiccupDecidesNothing) {
  std::mt19937 random(3);
  std::vector<double> values = correlated(40, 0.01, 0, random, 0.05);
  const Estimate without = estimate_mean(values, 0);
  values[7] = -8;  // that step took nine times as long
  const Estimate with = estimate_mean(values, 0);
  EXPECT_NEAR(with.mean, without.mean, 0.003);
  EXPECT_LT(with.error, 2 * without.error);
}

}  // namespace
}  // namespace penstock::budget
