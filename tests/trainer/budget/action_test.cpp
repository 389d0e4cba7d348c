#include "trainer/budget/actions/action.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/schedule/schedule.h"
#include "tests/trainer/budget/small_case.h"

namespace penstock::budget {
namespace {

using planner::Recompute;
using testing::ElementsAre;
using testing::HasSubstr;

class Actions : public testing::Test {
 protected:
  Proposals proposed(BudgetAction kind) {
    const Situation situation{running_,           first_,    truth_.machine, truth_.workloads,
                              {true, true, true}, {1e6, 1e3}};
    const auto action = make_action(kind, section_);
    EXPECT_EQ(action->kind(), kind);
    return propose(*action, situation);
  }
  /// What an action offers first.
  Arrangement best(BudgetAction kind) {
    const Proposals proposals = proposed(kind);
    if (proposals.candidates.empty()) {
      ADD_FAILURE() << name_of(kind) << " offers nothing: " << proposals.refusal;
      return running_;
    }
    return arrangement_of(proposals.candidates.front());
  }

  Truth truth_ = small_truth(3);
  Arrangement first_ = small_options(truth_, {}).first;
  Arrangement running_ = first_;
  BubbleBudgetSection section_;
};

TEST_F(Actions, RepartitionTakesUnitsFromASlowRankAndLeavesTheRest) {
  truth_.machine.pace[1] = 1.4;
  const Arrangement offered = best(BudgetAction::repartition);
  EXPECT_LT(offered.layout.units[1], 6);
  EXPECT_EQ(offered.schedule, running_.schedule);
  EXPECT_EQ(offered.layout.recompute, running_.layout.recompute);
  EXPECT_EQ(offered.workload, 0U);
}

TEST_F(Actions, RepartitionHasNothingToOfferWhereRanksAreEqual) {
  EXPECT_TRUE(proposed(BudgetAction::repartition).candidates.empty());
}

TEST_F(Actions, RecomputeStopsWhereMemoryAllows) {
  running_.layout.recompute.assign(small_ranks, Recompute::full);
  const Arrangement offered = best(BudgetAction::recompute);
  EXPECT_THAT(offered.layout.recompute,
              ElementsAre(Recompute::none, Recompute::none, Recompute::none, Recompute::none));
  EXPECT_EQ(offered.layout.units, running_.layout.units);
}

TEST_F(Actions, OffersOnlyWhatFits) {
  running_.layout.recompute.assign(small_ranks, Recompute::full);
  const planner::PlanRequest request =
      as_it_is({running_, first_, truth_.machine, truth_.workloads, {true, true, true}, {1e6, 1e3}});
  truth_.machine.memory_limit = {planner::make_plan(request).chosen.prediction.peak_memory};
  const Proposals proposals = proposed(BudgetAction::recompute);
  for (const planner::Candidate& each : proposals.candidates) EXPECT_TRUE(each.prediction.fits);
  EXPECT_TRUE(proposed(BudgetAction::schedule).candidates.size() <= most_proposals);
  truth_.machine.memory_limit = {1};
  EXPECT_TRUE(proposed(BudgetAction::schedule).candidates.empty());
}

TEST_F(Actions, WarmupSlackChangesNothingElse) {
  for (const planner::Candidate& each : proposed(BudgetAction::warmup_slack).candidates) {
    EXPECT_GT(each.slack, 0);
    EXPECT_EQ(each.schedule, "1f1b");
    EXPECT_EQ(each.layout, running_.layout);
  }
  EXPECT_FALSE(proposed(BudgetAction::warmup_slack).candidates.empty());
}

TEST_F(Actions, ScheduleFillsTheBubble) {
  const Arrangement offered = best(BudgetAction::schedule);
  EXPECT_NE(offered.schedule, "1f1b");
  const planner::UnitSums sums(truth_.workloads[0].model);
  SimulatedArrangement before(running_, truth_.machine, 16, false);
  SimulatedArrangement after(offered, truth_.machine, 16, false);
  EXPECT_LT(after.step(sums, truth_.machine.pace), 0.95 * before.step(sums, truth_.machine.pace));
}

TEST_F(Actions, ChunksKeepTheSchedule) {
  EXPECT_TRUE(proposed(BudgetAction::chunks).candidates.empty());  // 1f1b has one
  running_.schedule = "interleaved";
  running_.chunks = 2;
  running_.layout.units.assign(8, 3);
  running_.layout.recompute.assign(8, Recompute::none);
  const Arrangement offered = best(BudgetAction::chunks);
  EXPECT_EQ(offered.schedule, "interleaved");
  EXPECT_GT(offered.chunks, 2);
}

TEST_F(Actions, MicroBatchChangesTheSizeAlone) {
  running_.workload = 1;
  const Arrangement offered = best(BudgetAction::micro_batch);
  EXPECT_EQ(offered.workload, 0U);  // twice as many micro-batches: less bubble
  EXPECT_EQ(offered.layout, running_.layout);
  truth_.workloads.resize(1);
  running_.workload = 0;
  EXPECT_TRUE(proposed(BudgetAction::micro_batch).candidates.empty());
}

TEST_F(Actions, ConservativeFallsBackToTheFirstArrangement) {
  EXPECT_TRUE(proposed(BudgetAction::conservative).candidates.empty());
  running_.layout.units = {8, 6, 6, 4};
  EXPECT_EQ(best(BudgetAction::conservative), first_);
  section_.conservative = {{"schedule", "gpipe"}, {"partition", "layers"}};
  const Arrangement offered = best(BudgetAction::conservative);
  EXPECT_EQ(offered.schedule, "gpipe");
  EXPECT_THAT(offered.layout.units, ElementsAre(6, 6, 6, 6));
}

TEST_F(Actions, ConservativeSaysWhatItDoesNotKnow) {
  const auto message = [&](const std::string& key, const std::string& value) -> std::string {
    section_.conservative = {{key, value}};
    try {
      make_action(BudgetAction::conservative, section_);
    } catch (const schedule::ScheduleError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("pipeline", "4"), HasSubstr("\"pipeline\""));
  EXPECT_THAT(message("chunks", "two"), HasSubstr("a whole number"));
  EXPECT_THAT(message("partition", "evenly"), HasSubstr("\"measured\""));
  EXPECT_THAT(message("schedule", "dualpipe"), HasSubstr("two copies of the weights"));
}

TEST_F(Actions, SayWhyThePlannerCouldNot) {
  section_.conservative = {{"schedule", "dualpipev"}};  // 2P micro-batches at least
  truth_.workloads[0].micro_batches = 4;
  EXPECT_THAT(proposed(BudgetAction::conservative).refusal, HasSubstr("micro-batches"));
}

}  // namespace
}  // namespace penstock::budget
