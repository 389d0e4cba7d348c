#include "parallel/planner/refined_costs.h"

#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::planner {
namespace {

ModelCosts costs_of(int units) {
  ModelCosts costs;
  for (int unit = 0; unit < units; ++unit) {
    UnitCosts& made = costs.units.emplace_back();
    for (size_t mode = 0; mode < recompute_modes; ++mode) {
      const double base = 1 + unit;
      made.modes[mode] = {base, 0.3 * base * static_cast<double>(mode), 1.5 * base, 0.9 * base, 10, 20, 30,
                          40};
    }
  }
  return costs;
}

MeasuredRun run_of(std::vector<MeasuredRun::Member> members, double forward, double input, double weight,
                   std::optional<double> recompute = std::nullopt, int64_t micro_batches = 1) {
  return {std::move(members), micro_batches, forward, input, weight, recompute};
}

TEST(RefinedCosts, TakesTheFirstMeasurementWhole) {
  RefinedCosts refined(costs_of(3));
  // Units 0 and 1: F 3, I 4.5, W 2.7 a micro-batch by the costs; four micro-batches were measured.
  refined.fold(
      {run_of({{0, Recompute::none}, {1, Recompute::none}}, 4 * 6, 4 * 4.5, 4 * 27, std::nullopt, 4)});
  const ModelCosts& costs = refined.costs();
  EXPECT_DOUBLE_EQ(costs.units[0].in(Recompute::none).forward, 2);
  EXPECT_DOUBLE_EQ(costs.units[1].in(Recompute::none).forward, 4);
  EXPECT_DOUBLE_EQ(costs.units[1].in(Recompute::none).backward_input, 3);
  EXPECT_DOUBLE_EQ(costs.units[1].in(Recompute::none).backward_weight, 18);
  // All modes alike; what was not measured is as it was, and bytes are.
  EXPECT_DOUBLE_EQ(costs.units[1].in(Recompute::full).forward, 4);
  EXPECT_DOUBLE_EQ(costs.units[1].in(Recompute::full).recompute, 2 * 1.2);
  EXPECT_EQ(costs.units[2], costs_of(3).units[2]);
  EXPECT_EQ(costs.units[0].in(Recompute::none).kept_bytes, 20);
  EXPECT_EQ(refined.steps(), 1);
}

TEST(RefinedCosts, TellsRecomputationFromInputGradients) {
  RefinedCosts together(costs_of(1));
  together.fold({run_of({{0, Recompute::full}}, 1, 2 * (1.5 + 0.6), 0.9)});
  EXPECT_DOUBLE_EQ(together.costs().units[0].in(Recompute::full).backward_input, 3);
  EXPECT_DOUBLE_EQ(together.costs().units[0].in(Recompute::full).recompute, 1.2);
  RefinedCosts apart(costs_of(1));
  apart.fold({run_of({{0, Recompute::full}}, 2, 1.5, 0.9, 3 * 0.6)});
  EXPECT_DOUBLE_EQ(apart.costs().units[0].in(Recompute::full).recompute, 1.8);
  EXPECT_DOUBLE_EQ(apart.costs().units[0].in(Recompute::full).backward_input, 1.5);
  EXPECT_DOUBLE_EQ(apart.costs().units[0].in(Recompute::selective).recompute, 2 * 0.3);  // as F
}

TEST(RefinedCosts, AveragesOverSteps) {
  RefinedCosts refined(costs_of(1), 0.25);
  const auto measured = [&](double factor) {
    refined.fold({run_of({{0, Recompute::none}}, factor, 1.5 * factor, 0.9 * factor)});
    return refined.costs().units[0].in(Recompute::none).forward;
  };
  EXPECT_DOUBLE_EQ(measured(1), 1);
  EXPECT_DOUBLE_EQ(measured(1.2), 1.1);             // the mean of two
  EXPECT_DOUBLE_EQ(measured(1000), 1.1 * 4 / 3.0);  // a hiccup counts as twice as long
  EXPECT_DOUBLE_EQ(measured(1000), 1.1 * 4 / 3.0 * 1.25);
  EXPECT_DOUBLE_EQ(measured(1000), 1.1 * 4 / 3.0 * 1.25 * 1.25);
  double last = 0;
  for (int step = 0; step < 60; ++step) last = measured(1.2);
  EXPECT_NEAR(last, 1.2, 1e-6);
}

TEST(RefinedCosts, AHiccupInTheFirstStepIsOneOfTheSteps) {
  RefinedCosts refined(costs_of(1), 0.1);
  for (const double forward : {2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0})
    refined.fold({run_of({{0, Recompute::none}}, forward, 1.5, 0.9)});
  EXPECT_NEAR(refined.costs().units[0].in(Recompute::none).forward, 9.0 / 8, 1e-12);
}

// Noise averages out, and stages keep their own factors.
TEST(RefinedCosts, FindsASlowStage) {
  RefinedCosts refined(costs_of(4), 0.05);
  std::mt19937 random(3);
  std::normal_distribution<double> noise(1, 0.05);
  for (int step = 0; step < 400; ++step) {
    std::vector<MeasuredRun> runs;
    for (int stage = 0; stage < 2; ++stage) {
      const double slow = stage == 1 ? 1.3 : 1;
      const double sum = 4 * stage + 3;  // (1 + 2), (3 + 4)
      runs.push_back(run_of({{2 * stage, Recompute::none}, {2 * stage + 1, Recompute::none}},
                            slow * sum * noise(random), slow * 1.5 * sum * noise(random),
                            slow * 0.9 * sum * noise(random)));
    }
    refined.fold(runs);
  }
  for (int unit = 0; unit < 4; ++unit) {
    const double slow = unit > 1 ? 1.3 : 1;
    EXPECT_NEAR(refined.costs().units[static_cast<size_t>(unit)].in(Recompute::none).forward / (1 + unit),
                slow, 0.04);
  }
}

TEST(RefinedCosts, CostlessActionsStayCostless) {
  ModelCosts costs = costs_of(2);
  for (ModeCosts& mode : costs.units[1].modes) mode.forward = mode.backward_weight = 0;  // a head
  RefinedCosts refined(costs);
  refined.fold({run_of({{1, Recompute::none}}, 0.01, 6, 0.01)});
  EXPECT_EQ(refined.costs().units[1].in(Recompute::none).forward, 0);
  EXPECT_EQ(refined.costs().units[1].in(Recompute::none).backward_weight, 0);
  EXPECT_DOUBLE_EQ(refined.costs().units[1].in(Recompute::none).backward_input, 6);
}

TEST(RefinedCosts, RefusesNonsense) {
  EXPECT_THROW(RefinedCosts(costs_of(1), 0), std::invalid_argument);
  EXPECT_THROW(RefinedCosts(costs_of(1), 1.5), std::invalid_argument);
  RefinedCosts refined(costs_of(2));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(refined.fold({run_of({{2, Recompute::none}}, 1, 1, 1)}), std::invalid_argument);
  EXPECT_THROW(refined.fold({run_of({{0, Recompute::none}}, 1, nan, 1)}), std::invalid_argument);
  EXPECT_THROW(refined.fold({run_of({{0, Recompute::none}}, 1, 1, -1)}), std::invalid_argument);
  EXPECT_THROW(refined.fold({run_of({{0, Recompute::none}}, 1, 1, 1, 0, 0)}), std::invalid_argument);
  EXPECT_EQ(refined.costs(), costs_of(2));  // nothing of a step that is refused
}

}  // namespace
}  // namespace penstock::planner
