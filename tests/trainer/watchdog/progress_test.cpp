#include "trainer/watchdog/progress.h"

#include <string>

#include <gtest/gtest.h>

namespace penstock::watchdog {
namespace {

TEST(Progress, SaysWhatBeganLast) {
  Progress progress;
  EXPECT_EQ(progress.view().phase, Phase::start_up);
  const auto before = progress.view().since;
  progress.starts("reading");
  EXPECT_EQ(std::string(progress.view().part), "reading");
  EXPECT_GE(progress.view().since, before);
  progress.begin_step(7);
  EXPECT_EQ(progress.view().phase, Phase::step);
  EXPECT_EQ(progress.view().step, 7);
  progress.ends();
  EXPECT_EQ(progress.view().phase, Phase::ending);
}

TEST(Progress, APhaseWithinAnotherEndsWithItsScope) {
  Progress progress;
  progress.begin_step(3);
  const auto began = progress.view().since;
  {
    const Progress::Doing doing(progress, Phase::save);
    EXPECT_EQ(progress.view().phase, Phase::save);
  }
  EXPECT_EQ(progress.view().phase, Phase::step);
  EXPECT_GT(progress.view().since, began) << "what is left of the step has its limit to itself";
}

TEST(Progress, KnowsTheMedianStepWithoutTheFirst) {
  Progress progress;
  EXPECT_TRUE(progress.view().first);
  progress.end_step(100);
  EXPECT_FALSE(progress.view().first);
  EXPECT_EQ(progress.view().median_step, 0);
  for (const double seconds : {3.0, 1.0, 2.0}) progress.end_step(seconds);
  EXPECT_EQ(progress.view().median_step, 2);
  for (int i = 0; i < 40; ++i) progress.end_step(5);
  EXPECT_EQ(progress.view().median_step, 5) << "of the last ones";
  progress.rearranged();
  EXPECT_TRUE(progress.view().first);
  EXPECT_EQ(progress.view().median_step, 0);
}

}  // namespace
}  // namespace penstock::watchdog
