#include "trainer/spike_detector.h"

#include <limits>

#include <gtest/gtest.h>

namespace penstock {
namespace {

// Losses that wander around 2 by up to 0.1.
double calm(int at) {
  return 2.0 + 0.1 * ((at * 7 % 11) / 5.0 - 1.0);
}

TEST(SpikeDetector, SaysNothingOfCalmLosses) {
  SpikeDetector detector(6, 32);
  for (int at = 0; at < 200; ++at) EXPECT_FALSE(detector.judge(calm(at))) << at;
}

TEST(SpikeDetector, FindsASpikeAndIsNotBlindedByIt) {
  SpikeDetector detector(6, 32);
  for (int at = 0; at < 40; ++at) detector.judge(calm(at));
  const auto first = detector.judge(5.0);
  ASSERT_TRUE(first);
  EXPECT_GT(*first, 6);
  EXPECT_EQ(detector.judge(5.0), first) << "the spike did not join the window";
}

TEST(SpikeDetector, NeedsEightLossesFirst) {
  SpikeDetector detector(1, 8);
  for (int at = 0; at < 8; ++at) EXPECT_FALSE(detector.judge(at % 2 == 0 ? 1.0 : 100.0)) << at;
}

TEST(SpikeDetector, IgnoresWhatIsNotFinite) {
  SpikeDetector detector(6, 32);
  for (int at = 0; at < 40; ++at) detector.judge(calm(at));
  const auto before = detector.state();
  EXPECT_FALSE(detector.judge(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(detector.judge(std::numeric_limits<double>::infinity()));
  EXPECT_EQ(detector.state(), before);
}

TEST(SpikeDetector, GoesOnFromItsState) {
  SpikeDetector straight(3, 16);
  SpikeDetector stopped(3, 16);
  for (int at = 0; at < 50; ++at) {
    straight.judge(calm(at));
    stopped.judge(calm(at));
  }
  SpikeDetector resumed(3, 16);
  resumed.restore(nlohmann::json::parse(stopped.state().dump()));
  for (int at = 50; at < 100; ++at)
    EXPECT_EQ(resumed.judge(calm(at) + at % 5), straight.judge(calm(at) + at % 5)) << at;
  SpikeDetector forgetful(3, 16);
  EXPECT_NE(forgetful.state(), straight.state());
}

}  // namespace
}  // namespace penstock
