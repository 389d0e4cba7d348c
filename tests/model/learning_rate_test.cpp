#include "model/learning_rate.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/device/error.h"

namespace penstock {
namespace {

LearningRateSection section(DecayStyle style, int64_t warmup, int64_t decay) {
  LearningRateSection out;
  out.max = 1.0;
  out.min = 0.25;
  out.warmup_steps = warmup;
  out.decay_style = style;
  out.decay_steps = decay;
  return out;
}

TEST(LearningRate, WarmUpReachesMaxAtItsLastStep) {
  for (const DecayStyle style :
       {DecayStyle::cosine, DecayStyle::wsd, DecayStyle::linear, DecayStyle::constant}) {
    const LearningRateSection s = section(style, 4, 10);
    EXPECT_EQ(learning_rate(s, 20, 1), 0.25);
    EXPECT_EQ(learning_rate(s, 20, 2), 0.5);
    EXPECT_EQ(learning_rate(s, 20, 3), 0.75);
    EXPECT_EQ(learning_rate(s, 20, 4), 1.0);
  }
}

TEST(LearningRate, CosineAtItsBorders) {
  const LearningRateSection s = section(DecayStyle::cosine, 2, 6);
  EXPECT_EQ(learning_rate(s, 6, 2), 1.0);
  EXPECT_NEAR(learning_rate(s, 6, 3), 0.25 + 0.75 * 0.5 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_NEAR(learning_rate(s, 6, 4), 0.625, 1e-15);
  EXPECT_NEAR(learning_rate(s, 6, 5), 0.25 + 0.75 * 0.5 * (1 - std::sqrt(0.5)), 1e-15);
  EXPECT_EQ(learning_rate(s, 6, 6), 0.25);
  EXPECT_EQ(learning_rate(s, 6, 7), 0.25);
  EXPECT_EQ(learning_rate(s, 6, std::numeric_limits<int64_t>::max()), 0.25);
}

TEST(LearningRate, LinearIsExact) {
  const LearningRateSection s = section(DecayStyle::linear, 0, 4);
  EXPECT_EQ(learning_rate(s, 8, 1), 0.8125);
  EXPECT_EQ(learning_rate(s, 8, 2), 0.625);
  EXPECT_EQ(learning_rate(s, 8, 3), 0.4375);
  EXPECT_EQ(learning_rate(s, 8, 4), 0.25);
  EXPECT_EQ(learning_rate(s, 8, 5), 0.25);
}

TEST(LearningRate, WsdDecaysAtTheEndOfTheRun) {
  const LearningRateSection s = section(DecayStyle::wsd, 2, 4);
  EXPECT_EQ(learning_rate(s, 12, 2), 1.0);
  EXPECT_EQ(learning_rate(s, 12, 3), 1.0);
  EXPECT_EQ(learning_rate(s, 12, 8), 1.0);
  EXPECT_EQ(learning_rate(s, 12, 9), 0.8125);
  EXPECT_EQ(learning_rate(s, 12, 11), 0.4375);
  EXPECT_EQ(learning_rate(s, 12, 12), 0.25);
  EXPECT_EQ(learning_rate(s, 12, 13), 0.25);
}

TEST(LearningRate, WsdWithoutDecayStaysAtMaxUntilTheEnd) {
  const LearningRateSection s = section(DecayStyle::wsd, 0, 0);
  EXPECT_EQ(learning_rate(s, 5, 1), 1.0);
  EXPECT_EQ(learning_rate(s, 5, 5), 1.0);
}

TEST(LearningRate, ConstantStays) {
  const LearningRateSection s = section(DecayStyle::constant, 0, 0);
  EXPECT_EQ(learning_rate(s, 5, 1), 1.0);
  EXPECT_EQ(learning_rate(s, 5, 1000), 1.0);
}

TEST(LearningRate, ADecayThatEndsWithTheWarmUpFallsAtOnce) {
  for (const DecayStyle style : {DecayStyle::cosine, DecayStyle::linear}) {
    for (const int64_t decay : {int64_t{0}, int64_t{3}}) {
      const LearningRateSection s = section(style, 3, decay);
      EXPECT_EQ(learning_rate(s, 10, 3), 1.0);
      EXPECT_EQ(learning_rate(s, 10, 4), 0.25);
    }
  }
}

TEST(LearningRate, NeverRisesAfterWarmUpNorLeavesItsRange) {
  for (const DecayStyle style :
       {DecayStyle::cosine, DecayStyle::wsd, DecayStyle::linear, DecayStyle::constant}) {
    LearningRateSection s = section(style, 7, style == DecayStyle::wsd ? 31 : 97);
    s.max = 3e-4;
    s.min = 3e-5;
    double last = s.max;
    for (int64_t step = 8; step <= 120; ++step) {
      const double rate = learning_rate(s, 100, step);
      EXPECT_LE(rate, last) << step;
      EXPECT_GE(rate, s.min) << step;
      last = rate;
    }
  }
}

TEST(LearningRate, StepsCountFromOne) {
  EXPECT_THROW(learning_rate(section(DecayStyle::cosine, 0, 5), 5, 0), UsageError);
}

}  // namespace
}  // namespace penstock
