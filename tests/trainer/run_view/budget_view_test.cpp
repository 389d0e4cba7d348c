#include "trainer/run_view/budget_view.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace penstock::run_view {
namespace {

RunStep step_of(int64_t step, double bubble) {
  return *parse_step(fmt::format(
      R"({{"attempt": 1, "step": {}, "step_ms": 100, "bubble_ratio": {}, "stage_imbalance": 0.1, "slowest_stage": 0, )"
      R"("drain_ms": 5, "ranks": [{{"rank": 0, "accounted_ms": 100, "forward_ms": 60, "wait_backward_ms": 40}}]}})",
      step, bubble));
}

RunEvent event_of(const std::string& text) {
  return *parse_event(text);
}

BubbleBudgetSection section() {
  BubbleBudgetSection made;
  made.bubble_ratio = 0.2;
  made.drain_ms = 10;
  made.window_steps = 4;
  made.patience = 2;
  made.warmup_steps = 3;
  return made;
}

TEST(BudgetView, FiguresAreOfTheLastWindow) {
  BudgetView view(section(), true);
  for (int64_t step = 1; step <= 3; ++step) view.add(step_of(step, 0.9));
  EXPECT_FALSE(view.limits()[0].value.has_value());
  for (int64_t step = 4; step <= 7; ++step) view.add(step_of(step, 0.3));
  const std::vector<LimitView> limits = view.limits();
  ASSERT_EQ(limits.size(), 2U);
  EXPECT_NEAR(limits[0].value.value(), 0.3, 1e-12);
  EXPECT_TRUE(limits[0].broken);
  EXPECT_FALSE(limits[0].alarm_since.has_value());  // the run said nothing
  EXPECT_NEAR(limits[1].value.value(), 0.005, 1e-12);
  EXPECT_FALSE(limits[1].broken);
  view.add(step_of(6, 0.1));  // after a resume
  EXPECT_FALSE(view.limits()[0].value.has_value());
}

TEST(BudgetView, WithoutABudgetOfTheRunAlarmsFollowTheRule) {
  BudgetView view(section(), false);
  for (int64_t step = 1; step <= 10; ++step) view.add(step_of(step, 0.3));
  EXPECT_FALSE(view.limits()[0].alarm_since.has_value());
  view.add(step_of(11, 0.3));  // the second window after the warm-up ends
  EXPECT_EQ(view.limits()[0].alarm_since, 4);
  EXPECT_FALSE(view.limits()[1].alarm_since.has_value());
  for (int64_t step = 12; step <= 19; ++step) view.add(step_of(step, 0.1));
  EXPECT_FALSE(view.limits()[0].alarm_since.has_value());
}

TEST(BudgetView, WhatTheRunSays) {
  BudgetView view(section(), true);
  view.add(event_of(
      R"({"event": "budget_alarm", "attempt": 1, "step": 60, "limit": "bubble_ratio", "since_step": 40})"));
  EXPECT_EQ(view.limits()[0].alarm_since, 40);
  EXPECT_FALSE(view.trial().has_value());
  view.add(event_of(
      R"({"event": "budget_decision", "attempt": 1, "step": 61, "candidates": [{"action": "repartition", "taken": true, )"
      R"("arrangement": "1f1b, units 9 8", "predicted_gain": 0.068, "required_gain": 0.02}]})"));
  ASSERT_TRUE(view.trial().has_value());
  EXPECT_EQ(view.trial()->action, "repartition");
  EXPECT_EQ(view.trial()->since_step, 61);
  EXPECT_NEAR(view.trial()->predicted.value(), 0.068, 1e-12);
  view.add(event_of(R"({"event": "budget_kept", "attempt": 1, "step": 80, "action": "repartition"})"));
  EXPECT_FALSE(view.trial().has_value());
  view.add(event_of(R"({"event": "budget_alarm_over", "attempt": 1, "step": 90, "limit": "bubble_ratio"})"));
  EXPECT_FALSE(view.limits()[0].alarm_since.has_value());
  view.add(event_of(
      R"({"event": "budget_alarm", "attempt": 1, "step": 99, "limit": "drain_ms", "since_step": 92})"));
  EXPECT_EQ(view.limits()[1].alarm_since, 92);
  view.add(event_of(R"({"event": "start", "attempt": 2, "step": 95})"));  // a controller begins anew
  EXPECT_FALSE(view.limits()[1].alarm_since.has_value());
}

}  // namespace
}  // namespace penstock::run_view
