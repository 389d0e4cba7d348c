#include "trainer/budget/controller.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/budget/small_case.h"

namespace penstock::budget {
namespace {

using State = Controller::State;
using testing::HasSubstr;

constexpr int64_t window = 20;

std::vector<std::string> names(const std::vector<BudgetEvent>& events) {
  std::vector<std::string> made;
  for (const BudgetEvent& event : events) made.push_back(event.name);
  return made;
}

int64_t count(const std::vector<BudgetEvent>& events, const std::string& name) {
  return std::count_if(events.begin(), events.end(),
                       [&](const BudgetEvent& each) { return each.name == name; });
}

Truth slow_rank(int rank, int percent, int64_t from = 1) {
  Truth truth = small_truth();
  truth.disturbances = {runtime::read_disturbance("step " + std::to_string(from) + ".. rank " +
                                                  std::to_string(rank) + " slower " +
                                                  std::to_string(percent) + "%")};
  truth.noise = {0.02, 0.005, 0, 1};
  return truth;
}

TEST(Controller, OnlyWatchesWhereNothingIsAllowed) {
  const Truth truth = slow_rank(1, 50);
  ReplayedRun run(truth, small_options(truth, {}));
  run.run_to(20 * window);
  EXPECT_THAT(names(run.events()), testing::ElementsAre("budget_alarm"));
  EXPECT_EQ(run.events()[0].step, 4 * window);  // a window of warm-up, and three of patience
  EXPECT_THAT(run.events()[0].text, HasSubstr("next: nothing"));
}

TEST(Controller, SaysNothingWithinItsBudget) {
  const Truth truth = slow_rank(1, 50);
  ControllerOptions options = small_options(truth, {BudgetAction::repartition});
  options.budget.bubble_ratio = 0.9;
  ReplayedRun run(truth, std::move(options));
  run.run_to(20 * window);
  EXPECT_TRUE(run.events().empty());
}

TEST(Controller, DecidesNothingWithoutMeasuredTimes) {
  const Truth truth = slow_rank(1, 50);
  Controller controller(small_options(truth, {BudgetAction::repartition}));
  DrawnPipeline pipeline(controller.running(), truth);
  for (int64_t step = 1; step <= 20 * window; ++step) {
    StepObservation seen = pipeline.draw(step);
    seen.runs.clear();
    EXPECT_EQ(controller.observe(seen).command, Verdict::Command::go_on);
  }
  EXPECT_EQ(controller.state(), State::watching);
}

TEST(Controller, MovesUnitsFromASlowRankAndKeepsIt) {
  const Truth truth = slow_rank(1, 40);
  ReplayedRun run(truth, small_options(truth, {BudgetAction::repartition}));
  run.run_to(6 * window);
  ASSERT_EQ(run.applied().size(), 1U);
  EXPECT_TRUE(run.applied()[0].kept);
  EXPECT_EQ(run.applied()[0].step, 4 * window);
  EXPECT_EQ(run.applied()[0].ended, 5 * window);
  EXPECT_LT(run.running().layout.units[1], 6);
  EXPECT_EQ(run.controller().state(), State::cool_down);
  ASSERT_EQ(count(run.events(), "budget_decision"), 1);
  const nlohmann::json& decision = run.events()[1].details;
  EXPECT_NEAR(decision["pace"][1].get<double>() / decision["pace"][0].get<double>(), 1.4, 0.02);
  EXPECT_EQ(decision["candidates"][0]["action"], "repartition");
  EXPECT_TRUE(decision["candidates"][0]["taken"].get<bool>());
  const nlohmann::json& kept = run.events()[2].details;
  EXPECT_NEAR(kept["measured_gain"].get<double>(), kept["predicted_gain"].get<double>(), 0.02);
  // And that was all there is to gain.
  run.run_to(60 * window);
  EXPECT_EQ(run.applied().size(), 1U);
}

// The controller takes a slow rank for the reason where it is the units that are dear, and moves them to a
// rank that they make as slow. The trial shows it, and it is not tried again.
TEST(Controller, RollsBackWhatDoesNotGainAndRemembersIt) {
  Truth truth = small_truth();
  const ControllerOptions options = small_options(truth, {BudgetAction::repartition});
  for (int unit = 6; unit < 12; ++unit) {
    for (planner::ModeCosts& mode : truth.workloads[0].model.units[static_cast<size_t>(unit)].modes) {
      const bool dear = unit == 6 || unit == 11;
      mode.forward *= dear ? 2.5 : 0.7;
      mode.backward_input *= dear ? 2.5 : 0.7;
      mode.backward_weight *= dear ? 2.5 : 0.7;
    }
  }
  truth.noise = {0.02, 0.005, 0, 1};
  ReplayedRun run(truth, options);
  run.run_to(100 * window);
  ASSERT_GE(run.applied().size(), 1U);
  for (const Applied& each : run.applied()) {
    const double before = mean_step(each.before, truth, 200, 7);
    const double after = mean_step(each.after, truth, 200, 7);
    EXPECT_EQ(each.kept, 1 - after / before > options.budget.min_gain);
  }
  EXPECT_FALSE(run.applied()[0].kept);
  EXPECT_EQ(run.running(), options.first);
  EXPECT_EQ(run.applied().size(), 1U);
}

TEST(Controller, AnArrangementThatCannotBeAppliedIsLeftAlone) {
  const Truth truth = slow_rank(1, 40);
  Controller controller(small_options(truth, {BudgetAction::repartition}));
  const Arrangement first = controller.running();
  DrawnPipeline pipeline(first, truth);
  int refused = 0;
  for (int64_t step = 1; step <= 60 * window; ++step) {
    if (controller.observe(pipeline.draw(step)).command != Verdict::Command::apply) continue;
    ++refused;
    const std::vector<BudgetEvent> events = controller.refused(step, "rank 2 has no room");
    ASSERT_THAT(names(events), testing::ElementsAre("budget_rolled_back"));
    EXPECT_THAT(events[0].text, HasSubstr("rank 2 has no room"));
    EXPECT_EQ(controller.running(), first);
    EXPECT_EQ(controller.state(), State::cool_down);
  }
  EXPECT_EQ(refused, 1);
}

TEST(Controller, GoesBackWhenTheRankIsWellAgain) {
  Truth truth = slow_rank(1, 40);
  truth.disturbances[0].last = 20 * window;
  ReplayedRun run(truth, small_options(truth, {BudgetAction::repartition}));
  run.run_to(20 * window);
  EXPECT_LT(run.running().layout.units[1], 6);
  run.run_to(30 * window);
  EXPECT_EQ(run.running().layout.units, std::vector<int>(4, 6));
  EXPECT_EQ(run.applied().size(), 2U);
}

// Which size is better turns with every change of the pace; the size changes once.
TEST(Controller, AMicroBatchSizeNeverComesBack) {
  Truth truth = small_truth(2);
  ControllerOptions options = small_options(truth, {BudgetAction::micro_batch});
  options.first.workload = 1;
  // Eight micro-batches of two sequences have more bubble than sixteen of one; then single ones become dear.
  for (int64_t turn = 0; turn < 6; ++turn) {
    for (int stage = 0; stage < small_ranks; ++stage) {
      truth.disturbances.push_back(runtime::read_disturbance(
          "step " + std::to_string(1 + 30 * window * turn) + ".." + std::to_string(30 * window * (turn + 1)) +
          " stage " + std::to_string(stage) + " slower " + (turn % 2 == 0 ? "1%" : "60%")));
    }
  }
  truth.noise = {0.02, 0.005, 0, 1};
  ReplayedRun run(truth, options);
  run.run_to(180 * window);
  int64_t changes = 0;
  for (const Applied& each : run.applied()) changes += each.before.workload != each.after.workload ? 1 : 0;
  EXPECT_EQ(changes, 1);
  EXPECT_EQ(run.running().workload, 0U);
}

TEST(Controller, IsAFunctionOfItsSteps) {
  const Truth truth = slow_rank(2, 30, 10 * window);
  const auto text = [&] {
    ReplayedRun run(truth, small_options(truth, {BudgetAction::repartition, BudgetAction::schedule}));
    run.run_to(40 * window);
    std::string all;
    for (const BudgetEvent& event : run.events())
      all += std::to_string(event.step) + event.name + event.details.dump() + event.text;
    return all;
  };
  const std::string once = text();
  EXPECT_THAT(once, HasSubstr("budget_kept"));
  EXPECT_EQ(text(), once);
}

TEST(Controller, StepsWithAPauseDecideNothing) {
  const Truth truth = slow_rank(1, 40);
  Controller controller(small_options(truth, {BudgetAction::repartition}));
  auto pipeline = std::make_unique<DrawnPipeline>(controller.running(), truth);
  std::vector<std::string> seen;
  for (int64_t step = 1; step <= 6 * window; ++step) {
    StepObservation made = pipeline->draw(step);
    made.paused = step % 5 == 0;
    if (made.paused) made.seconds *= 3;  // whatever it did to the step
    const Verdict verdict = controller.observe(made);
    for (const BudgetEvent& event : verdict.events) seen.push_back(event.name);
    if (verdict.arrangement) pipeline = std::make_unique<DrawnPipeline>(*verdict.arrangement, truth);
  }
  EXPECT_THAT(seen, testing::Contains("budget_kept"));
}

}  // namespace
}  // namespace penstock::budget
