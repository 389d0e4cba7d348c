#include "trainer/budget/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace penstock::budget {
namespace {

using accounting::Part;
using testing::HasSubstr;

StepObservation step_of(int64_t number, double bubble, double seconds = 0.5) {
  StepObservation step;
  step.step = number;
  step.seconds = seconds;
  step.bubble_ratio = bubble;
  step.stage_imbalance = 0.1;
  step.drain = 0.02;
  step.slowest_rank = 3;
  step.slowest_stage = 7;
  step.parts[Part::forward] = 0.3;
  step.parts[Part::wait_backward] = 0.1;
  step.parts[Part::fill] = 0.05;
  step.roots = {{3, -1, 0.3}, {2, 3, 0.1}};
  return step;
}

Window window_of(double bubble, int64_t first = 1, int64_t steps = 4) {
  WindowBuilder builder(steps);
  for (int64_t step = first; step < first + steps - 1; ++step)
    EXPECT_FALSE(builder.add(step_of(step, bubble)));
  return builder.add(step_of(first + steps - 1, bubble)).value();
}

TEST(Window, IsMadeOfItsSteps) {
  WindowBuilder builder(20);
  std::optional<Window> window;
  for (int64_t step = 101; step <= 120; ++step) {
    EXPECT_FALSE(window);
    // 19 short steps without a bubble, and a long one that is half bubble.
    window = builder.add(
        step_of(step, step == 110 ? 0.5 : 0, step == 110 ? 20 : 1 + 0.01 * static_cast<double>(step % 10)));
  }
  ASSERT_TRUE(window);
  EXPECT_EQ(window->first_step, 101);
  EXPECT_EQ(window->last_step, 120);
  EXPECT_NEAR(window->step_p95, 1.09, 1e-12);  // the 19th of 20
  EXPECT_NEAR(window->bubble_ratio, 10 / (20 * window->step), 1e-12);
  EXPECT_NEAR(window->stage_imbalance, 0.1, 1e-12);
  EXPECT_NEAR(window->drain, 0.02, 1e-12);
  EXPECT_FALSE(window->amplification);
  EXPECT_NEAR(window->why.parts[Part::wait_backward], 0.1, 1e-12);
  EXPECT_EQ(window->why.slowest_rank, 3);
  ASSERT_EQ(window->why.roots.size(), 2U);
  EXPECT_EQ(window->why.roots[0].rank, 3);
  EXPECT_NEAR(window->why.roots[0].seconds, 0.3, 1e-12);
  EXPECT_NEAR(window->why.waits, 0.4, 1e-12);
}

TEST(Window, ComparesStepsWithAPauseToTheOthers) {
  WindowBuilder builder(5);
  std::optional<Window> window;
  for (int64_t step = 1; step <= 5; ++step) {
    StepObservation made = step_of(step, step == 3 ? 0.3 : 0.1);
    made.paused = step == 3;
    window = builder.add(made);
  }
  EXPECT_NEAR(window.value().amplification.value(), 3, 1e-12);
}

TEST(Limits, AreThoseOfTheSection) {
  BubbleBudgetSection section;
  EXPECT_TRUE(limits_of(section).empty());
  section.drain_ms = 25;
  section.amplification = 1.5;
  const std::vector<Limit> limits = limits_of(section);
  ASSERT_EQ(limits.size(), 2U);
  EXPECT_EQ(limits[0].figure, Figure::drain);
  EXPECT_NEAR(limits[0].value, 0.025, 1e-12);
  EXPECT_EQ(limits[1].figure, Figure::amplification);
}

TEST(AlarmWatch, WaitsForPatienceAndForAsManyGoodWindows) {
  AlarmWatch watch({{Figure::bubble_ratio, 0.15}}, 3);
  const auto add = [&](double bubble, int64_t first) { return watch.add(window_of(bubble, first)); };
  EXPECT_TRUE(add(0.2, 1).raised.empty());
  EXPECT_TRUE(add(0.3, 5).raised.empty());
  EXPECT_TRUE(add(0.1, 9).raised.empty());  // in a row, or not at all
  EXPECT_TRUE(add(0.2, 13).raised.empty());
  EXPECT_TRUE(add(0.3, 17).raised.empty());
  EXPECT_FALSE(watch.alarming());
  const AlarmWatch::News news = add(0.4, 21);
  ASSERT_EQ(news.raised.size(), 1U);
  EXPECT_TRUE(watch.alarming());
  const Alarm& alarm = news.raised.front();
  EXPECT_EQ(alarm.windows, 3);
  EXPECT_EQ(alarm.since_step, 13);
  EXPECT_EQ(alarm.last_step, 24);
  EXPECT_NEAR(alarm.found, 0.3, 1e-12);
  EXPECT_TRUE(add(0.4, 25).raised.empty());  // said once
  EXPECT_TRUE(add(0.1, 29).cleared.empty());
  EXPECT_FALSE(watch.alarming());  // not while windows keep the limit
  EXPECT_TRUE(add(0.1, 33).cleared.empty());
  EXPECT_EQ(add(0.1, 37).cleared.size(), 1U);
}

TEST(AlarmWatch, AWindowWithoutTheFigureChangesNothing) {
  AlarmWatch watch({{Figure::amplification, 2}}, 2);
  Window without = window_of(0.1);
  Window with = without;
  with.amplification = 3;
  EXPECT_TRUE(watch.add(with).raised.empty());
  EXPECT_TRUE(watch.add(without).raised.empty());
  EXPECT_EQ(watch.add(with).raised.size(), 1U);
}

TEST(Alarm, SaysWhatBrokeByHowMuchSinceWhenAndWhoIsBehindIt) {
  AlarmWatch watch({{Figure::bubble_ratio, 0.15}}, 1);
  const Alarm alarm = watch.add(window_of(0.3, 13)).raised.at(0);
  EXPECT_EQ(
      text_of(alarm, "weigh repartition"),
      "ALARM bubble_ratio is 30.0 %, 2.00 times its limit of 15.0 %, in 1 window since step 13 (now 16)\n"
      "  idle 30.0 % of the step of 500 ms: wait_backward 20.0 %, fill 10.0 %\n"
      "  waited for: rank 3 (75 % of all waiting), link 2->3 (25 %); slowest: rank 3, stage 7\n"
      "  next: weigh repartition\n");
  const nlohmann::json made = json_of(alarm);
  EXPECT_EQ(made["limit"], "bubble_ratio");
  EXPECT_NEAR(made["found"].get<double>(), 0.3, 1e-12);
  EXPECT_EQ(made["since_step"], 13);
  EXPECT_NEAR(made["idle"]["wait_backward_ms"].get<double>(), 100, 1e-9);
  EXPECT_EQ(made["waited_for"][1]["root_link_to"], 3);
}

TEST(Alarm, SpeaksInTheUnitsOfItsKey) {
  EXPECT_EQ(text_of(Figure::drain, 0.0171), "17.1 ms");
  EXPECT_EQ(text_of(Figure::amplification, 1.8), "1.80 x");
  EXPECT_NEAR(in_key_unit(Figure::step_p95, 0.25), 250, 1e-12);
  EXPECT_THAT(name_of(Figure::step_p95), HasSubstr("_ms"));
}

}  // namespace
}  // namespace penstock::budget
