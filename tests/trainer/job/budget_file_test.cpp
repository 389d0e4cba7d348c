#include "trainer/job/budget_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/job/problems.h"

namespace penstock {
namespace {

TEST(BudgetFile, HoldsOneSection) {
  const BubbleBudgetSection budget = parse_budget(
      "[bubble_budget]\nbubble_ratio = 0.15\npatience = 2\nactions = [\"repartition\"]\n", "budget.toml");
  EXPECT_EQ(budget.bubble_ratio, 0.15);
  EXPECT_EQ(budget.patience, 2);
  EXPECT_EQ(budget.window_steps, 20);
  EXPECT_THAT(budget.actions, testing::ElementsAre(BudgetAction::repartition));
}

TEST(BudgetFile, IsAsStrictAsAJobFile) {
  const auto error = [](const char* text) -> std::string {
    try {
      parse_budget(text, "budget.toml");
    } catch (const JobError& problems) {
      return problems.what();
    }
    return "";
  };
  EXPECT_THAT(error("[bubble_budget]\nbuble_ratio = 0.1\n"), testing::HasSubstr("budget.toml:2:1: "));
  EXPECT_THAT(error("[bubble_budget]\nbuble_ratio = 0.1\n"), testing::HasSubstr("bubble_ratio"));
  EXPECT_THAT(error("[bubble_budget]\nbubble_ratio = 2\n"), testing::HasSubstr("bubble_ratio"));
  EXPECT_THAT(error("[parallel]\npipeline = 2\n"), testing::HasSubstr("parallel"));
}

}  // namespace
}  // namespace penstock
