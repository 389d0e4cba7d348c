#include "trainer/watchdog/phase.h"

#include <gtest/gtest.h>

namespace penstock::watchdog {
namespace {

WatchdogSection limits() {
  WatchdogSection section;
  section.start_s = 1;
  section.first_step_s = 20;
  section.step_factor = 10;
  section.step_min_s = 4;
  section.evaluation_s = 5;
  section.checkpoint_s = 6;
  return section;
}

TEST(Phase, HasANameThatIsRead) {
  for (int i = 0; i < phases; ++i) {
    const auto phase = static_cast<Phase>(i);
    EXPECT_EQ(phase_named(name_of(phase)), phase);
  }
  EXPECT_FALSE(phase_named("lunch"));
}

TEST(Phase, HasItsOwnLimit) {
  EXPECT_EQ(limit_of(Phase::start_up, true, 0, limits()), 1);
  EXPECT_EQ(limit_of(Phase::evaluation, false, 1, limits()), 5);
  EXPECT_EQ(limit_of(Phase::check, false, 1, limits()), 5);
  EXPECT_EQ(limit_of(Phase::save, false, 1, limits()), 6);
  EXPECT_EQ(limit_of(Phase::load, false, 1, limits()), 6);
  EXPECT_EQ(limit_of(Phase::rollback, false, 1, limits()), 6);
  EXPECT_EQ(limit_of(Phase::rearrangement, false, 1, limits()), 20);
}

TEST(Phase, AStepMayTakeAMultipleOfTheOthersButTheFirst) {
  EXPECT_EQ(limit_of(Phase::step, true, 0.5, limits()), 20);
  EXPECT_EQ(limit_of(Phase::step, false, 0, limits()), 20) << "none has ended that could be compared with";
  EXPECT_EQ(limit_of(Phase::step, false, 0.5, limits()), 5);
  EXPECT_EQ(limit_of(Phase::step, false, 0.1, limits()), 4) << "at least step_min_s";
}

TEST(Phase, NamesTheKeyThatDecided) {
  EXPECT_EQ(key_of(Phase::step, true, 0.5, limits()), "watchdog.first_step_s");
  EXPECT_EQ(key_of(Phase::step, false, 0.1, limits()), "watchdog.step_min_s");
  EXPECT_EQ(key_of(Phase::step, false, 0.5, limits()), "watchdog.step_factor times the median step");
  EXPECT_EQ(key_of(Phase::save, false, 0.5, limits()), "watchdog.checkpoint_s");
}

}  // namespace
}  // namespace penstock::watchdog
