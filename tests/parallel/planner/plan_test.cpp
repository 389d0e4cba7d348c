#include "parallel/planner/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/planner/cut.h"
#include "parallel/planner/variants.h"
#include "parallel/schedule/simulate.h"
#include "parallel/schedule/validate.h"
#include "tests/parallel/planner/any_model.h"

namespace penstock::planner {
namespace {

using testing::HasSubstr;

PlanRequest any_request(Dice& dice) {
  PlanRequest request;
  const int units = dice.between(4, 12);
  request.machine = any_machine(dice, dice.between(1, 4));
  if (dice.coin()) {
    request.machine.links.edges[0].bandwidth = 64;
    request.machine.links.traffic_slowdown = dice.between(0, 8) / 16.0;
  }
  const int micro_batches = dice.between(1, 12);
  request.workloads.push_back({any_model(dice, units, true), micro_batches});
  request.budget = {2e5, 1e4};
  return request;
}

schedule::Program program_of(const Plan& plan) {
  return lower(plan.schedule, plan.costs, plan.lowering);
}

TEST(Plan, IsWhatItsProgramDoes) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Dice dice(seed);
    const PlanRequest request = any_request(dice);
    const Plan plan = make_plan(request);
    const schedule::Program program = program_of(plan);
    EXPECT_TRUE(validate(program).empty());
    const schedule::Measures measures = measure(program, simulate(program, plan.costs));
    const Prediction& predicted = plan.chosen.prediction;
    EXPECT_EQ(predicted.step, measures.step_time);
    EXPECT_TRUE(predicted.simulated);
    EXPECT_EQ(predicted.measures.bubble_ratio, measures.bubble_ratio);
    const StepParts& parts = plan.parts;
    EXPECT_NEAR(parts.work + parts.recompute + parts.imbalance + parts.schedule + parts.transfer + parts.tail,
                predicted.step, 1e-9 * predicted.step);
    EXPECT_GE(parts.transfer, -1e-12);
    EXPECT_EQ(plan.schedules[0].prediction.step, predicted.step);
  }
}

// Two copies of the weights are planned where they are named, and never chosen.
TEST(Plan, TwoCopiesAreTakenByNameOnly) {
  int best = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    Dice dice(seed);
    PlanRequest request = any_request(dice);
    request.machine.ranks = 2 + 2 * dice.between(0, 1);
    request.machine.pace = {1};
    request.workloads[0].micro_batches = 8;
    const Plan open = make_plan(request);
    for (const Candidate& each : open.schedules) {
      const bool two = each.schedule == "dualpipe" || each.schedule == "chimera";
      EXPECT_EQ(each.refusal == by_name_only, two) << each.schedule << ": " << each.refusal;
    }
    EXPECT_EQ(open.schedule.copies, 1);
    request.schedule = dice.coin() ? "dualpipe" : "chimera";
    const Plan named = make_plan(request);
    EXPECT_EQ(named.schedule.copies, 2);
    const schedule::Program program = program_of(named);
    EXPECT_TRUE(validate(program).empty());
    EXPECT_EQ(named.chosen.prediction.step, measure(program, simulate(program, named.costs)).step_time);
    EXPECT_EQ(named.stages.size(), 2 * named.chosen.layout.units.size());
    EXPECT_EQ(named.chosen.prediction.memory.size(), static_cast<size_t>(request.machine.ranks));
    const StepParts& parts = named.parts;
    EXPECT_NEAR(parts.work + parts.recompute + parts.imbalance + parts.schedule + parts.transfer + parts.tail,
                named.chosen.prediction.step, 1e-9 * named.chosen.prediction.step);
    // Both ranks that hold a block hold the same bytes of weights, gradients and moments.
    for (int rank = 0; rank < request.machine.ranks; ++rank) {
      EXPECT_EQ(
          named.chosen.prediction.memory[static_cast<size_t>(rank)].resident,
          named.chosen.prediction.memory[static_cast<size_t>(request.machine.ranks - 1 - rank)].resident);
    }
    best += named.chosen.prediction.step < open.chosen.prediction.step ? 1 : 0;
  }
  EXPECT_GT(best, 0) << "none would have been better: this shows nothing";
}

TEST(Plan, IsNeverWorseThanTheCutsThatLookAtTheModelAlone) {
  for (unsigned seed = 100; seed < 160; ++seed) {
    Dice dice(seed);
    const Plan plan = make_plan(any_request(dice));
    ASSERT_EQ(plan.cuts.size(), 3u);
    for (const OtherCut& cut : plan.cuts)
      EXPECT_LE(plan.chosen.prediction.step, cut.prediction.step * (1 + 1e-12)) << to_string(cut.cut);
  }
}

// The schedules' own searches prove theirs, and the plan takes the best of them.
TEST(Plan, TakesTheBestSchedule) {
  for (unsigned seed = 200; seed < 230; ++seed) {
    Dice dice(seed);
    PlanRequest request = any_request(dice);
    request.machine.links.edges[0].bandwidth = std::numeric_limits<double>::infinity();
    request.machine.links.traffic_slowdown = 0;
    request.budget = {};
    const Plan all = make_plan(request);
    for (const Candidate& each : all.schedules) {
      if (!each.refusal.empty()) continue;
      EXPECT_LE(all.chosen.prediction.step, each.prediction.step * (1 + 1e-12)) << each.schedule;
      PlanRequest one = request;
      one.schedule = each.schedule;
      one.chunks = each.chunks;
      one.slack = each.slack;
      EXPECT_LE(all.chosen.prediction.step, make_plan(one).chosen.prediction.step * (1 + 1e-12))
          << seed << " " << each.schedule;
    }
  }
}

TEST(Plan, KeepsWhatIsFixed) {
  Dice dice(7);
  PlanRequest request;
  request.machine = any_machine(dice, 2);
  request.workloads.push_back({any_model(dice, 8, true), 6});
  request.schedule = "interleaved";
  request.chunks = 2;
  request.cut = CutBy::listed;
  request.listed = {3, 1, 2, 2};
  request.recompute.fixed = {Recompute::full, Recompute::none, Recompute::selective, Recompute::none};
  const Plan plan = make_plan(request);
  EXPECT_EQ(plan.chosen.layout, (Layout{request.listed, request.recompute.fixed}));
  EXPECT_EQ(plan.schedule.name, "interleaved");
  ASSERT_EQ(plan.stages.size(), 4u);
  EXPECT_EQ(plan.stages[2].first_unit, 4);
  EXPECT_EQ(plan.stages[2].rank, 0);
  EXPECT_EQ(plan.stages[2].recompute, Recompute::selective);

  request.cut = CutBy::layers;
  request.listed = {};
  const Plan by_layers = make_plan(request);
  EXPECT_EQ(by_layers.chosen.layout.units,
            cut_evenly(cut_weights(request.workloads[0].model, CutBy::layers), 4));
}

TEST(Plan, ChoosesTheMicroBatchSizeAtTheSameTokens) {
  // One sequence costs 1 a unit, two cost 1.2: larger micro-batches are worth it until the pipeline is empty.
  const auto workload = [](int sequences, double time, int micro_batches) {
    ModelCosts model;
    model.micro_batch = sequences;
    model.tokens = 10 * sequences;
    for (int unit = 0; unit < 8; ++unit) {
      UnitCosts made;
      made.modes.fill({time, 0, time, time, 1, 1, 1, 0});
      model.units.push_back(made);
    }
    return Workload{model, micro_batches};
  };
  PlanRequest request;
  request.machine.ranks = 4;
  request.workloads = {workload(1, 1, 32), workload(2, 1.2, 16), workload(8, 4.6, 4)};
  const Plan plan = make_plan(request);
  EXPECT_EQ(plan.chosen.workload, 1u);
  EXPECT_EQ(plan.micro_batches, 16);
  EXPECT_NEAR(plan.chosen.prediction.tokens_per_second, 320 / plan.chosen.prediction.step, 1e-9);
}

TEST(Plan, SaysThatNothingFits) {
  Dice dice(3);
  PlanRequest request;
  request.machine = any_machine(dice, 2);
  request.machine.memory_limit = {1};
  request.workloads.push_back({any_model(dice, 6, true), 4});
  const Plan plan = make_plan(request);
  EXPECT_FALSE(plan.chosen.prediction.fits);
}

TEST(Plan, NeverExceedsTheLimit) {
  int fitting = 0;
  for (unsigned seed = 300; seed < 380; ++seed) {
    Dice dice(seed);
    PlanRequest request = any_request(dice);
    const int64_t peak = make_plan(request).chosen.prediction.peak_memory;
    request.machine.memory_limit = {peak * dice.between(60, 100) / 100};
    const Plan plan = make_plan(request);
    if (!plan.chosen.prediction.fits) continue;
    ++fitting;
    for (const RankMemory& rank : plan.chosen.prediction.memory)
      EXPECT_LE(rank.total(), request.machine.memory_limit[0]);
  }
  EXPECT_GT(fitting, 40);
}

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Plan, ErrorsGiveTheNumbers) {
  Dice dice(3);
  PlanRequest request;
  request.machine = any_machine(dice, 4);
  request.machine.pace = {1};
  request.workloads.push_back({any_model(dice, 6, true), 4});
  const auto error = [&](auto change) {
    PlanRequest changed = request;
    change(changed);
    return error_of([&] { make_plan(changed); });
  };
  EXPECT_THAT(error([](PlanRequest& r) { r.schedule = "interleavd"; }),
              HasSubstr("did you mean \"interleaved\""));
  EXPECT_THAT(error([](PlanRequest& r) { r.chunks = 2, r.schedule = "interleaved"; }),
              HasSubstr("8 stages of 6 units"));
  EXPECT_THAT(error([](PlanRequest& r) { r.schedule = "dualpipe"; }), HasSubstr("at least 8 micro-batches"));
  EXPECT_THAT(error([](PlanRequest& r) {
                r.machine.pace = {1, 1};
              }),
              HasSubstr("2 paces of ranks: one for all, or 4"));
  EXPECT_THAT(error([](PlanRequest& r) { r.workloads.clear(); }), HasSubstr("at least one workload"));
  EXPECT_THAT(error([](PlanRequest& r) {
                r.cut = CutBy::listed, r.listed = {3, 3, 0, 0};
              }),
              HasSubstr("[3, 3, 0, 0]"));
  EXPECT_THAT(error([](PlanRequest& r) {
                r.recompute.allowed = {false, false, false};
              }),
              HasSubstr("recompute mode"));
}

}  // namespace
}  // namespace penstock::planner
