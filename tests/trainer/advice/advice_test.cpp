#include "trainer/advice/advice.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace penstock::advice {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// 24 equal units on four ranks, 8 micro-batches, 1F1B.
planner::PlanRequest running(std::vector<int> units = {6, 6, 6, 6}, int micro_batches = 8) {
  planner::PlanRequest request;
  request.machine.ranks = 4;
  planner::Workload workload;
  workload.micro_batches = micro_batches;
  workload.model.tokens = 128;
  for (int unit = 0; unit < 24; ++unit) {
    planner::UnitCosts& made = workload.model.units.emplace_back();
    made.name = "unit_" + std::to_string(unit);
    made.parameters = made.flops = made.layers = 1;
    made.resident_bytes = 100;
    for (planner::ModeCosts& mode : made.modes) mode = {1e-3, 0, 1e-3, 1e-3, 10, 20, 30, 0};
  }
  request.workloads = {workload};
  request.schedule = "1f1b";
  request.chunks = 1;
  request.slack = 0;
  request.cut = planner::CutBy::listed;
  request.listed = std::move(units);
  request.recompute.allowed = {true, false, false};
  return request;
}

Measured measured(double idle) {
  Measured made;
  made.idle = idle;
  made.bubble = idle;
  made.step = 0.3;
  return made;
}

const Change* with_key(const Advice& advice, const std::string& key) {
  for (const Change& change : advice.changes) {
    if (change.keys.find(key) != std::string::npos) return &change;
  }
  return nullptr;
}

TEST(Advice, LevelsAreThoseThatAreStated) {
  EXPECT_EQ(level_of(0.0), Level::leave_alone);
  EXPECT_EQ(level_of(0.0999), Level::leave_alone);
  EXPECT_EQ(level_of(0.10), Level::may_help);
  EXPECT_EQ(level_of(0.15), Level::may_help);
  EXPECT_EQ(level_of(0.1501), Level::change_first);
}

TEST(Advice, BelowTenPercentNothingIsLookedFor) {
  const Advice advice = advise(measured(0.062), running({9, 5, 5, 5}));
  EXPECT_THAT(advice.changes, IsEmpty());
  EXPECT_THAT(text_of(advice), ElementsAre("6.2 % idle: below 10 %, leave it alone"));
}

TEST(Advice, AnUnevenCutIsNamedWithTheCutThatIsBetter) {
  const Advice advice = advise(measured(0.4), running({9, 5, 5, 5}));
  const Change* cut = with_key(advice, "parallel.partition = [6, 6, 6, 6]");
  ASSERT_NE(cut, nullptr);
  // Even, it takes M + P - 1 = 11 times what a rank takes for a micro-batch.
  EXPECT_NEAR(cut->gain, 1 - 11 * 6 * 3e-3 / advice.simulated_step.value(), 1e-6);
  EXPECT_GT(cut->gain, 0.1);
  EXPECT_NEAR(cut->step, 0.3 * (1 - cut->gain), 1e-9);
  EXPECT_FALSE(cut->changes_training);
  EXPECT_EQ(advice.level, Level::change_first);
  EXPECT_THAT(text_of(advice).front(), StartsWith("40.0 % idle: above 15 %"));
  EXPECT_THAT(text_of(advice), Contains(AllOf(HasSubstr("instead of 300"), HasSubstr("(predicted)"))));
}

TEST(Advice, SchedulesAndMicroBatchesArePredicted) {
  const Advice advice = advise(measured(0.3), running());
  EXPECT_EQ(with_key(advice, "parallel.partition = [6, 6, 6, 6]") == nullptr ||
                with_key(advice, "parallel.schedule") != nullptr,
            true);
  const Change* schedule = with_key(advice, "parallel.schedule = \"");
  ASSERT_NE(schedule, nullptr);
  EXPECT_GT(schedule->gain, 0.1);  // zero-bubble schedules fill what 1F1B leaves: 3 of 11
  EXPECT_LT(schedule->bubble, 3.0 / 11);
  const Change* more = with_key(advice, "batch.global = 16");
  ASSERT_NE(more, nullptr);
  EXPECT_TRUE(more->changes_training);
  // 1F1B takes M + P − 1 times as long as a micro-batch on a rank.
  EXPECT_NEAR(more->gain, 1 - (19.0 / 16) / (11.0 / 8), 1e-6);
  for (size_t i = 1; i < advice.changes.size(); ++i)
    EXPECT_GE(advice.changes[i - 1].gain, advice.changes[i].gain);
  EXPECT_NEAR(advice.simulated_step.value(), 11 * 6 * 3e-3, 1e-9);
}

// Two copies of the weights sum as twice the replicas do, two versions are another training.
TEST(Advice, AScheduleWithOtherSumsChangesTraining) {
  planner::PlanRequest request = running();
  const Advice same = advise(measured(0.3), request);
  ASSERT_NE(with_key(same, "parallel.schedule = \""), nullptr);
  EXPECT_FALSE(with_key(same, "parallel.schedule = \"")->changes_training);
  request.schedule = "2bw";
  const Advice other = advise(measured(0.3), request);
  for (const Change& change : other.changes) {
    if (change.keys.find("parallel.schedule = \"") != std::string::npos) {
      EXPECT_TRUE(change.changes_training) << change.keys;
    }
  }
  request.schedule = "chimera";
  const Change* schedule = with_key(advise(measured(0.3), request), "parallel.schedule = \"");
  ASSERT_NE(schedule, nullptr);
  EXPECT_TRUE(schedule->changes_training);
}

TEST(Advice, WhatGainsLessThanOnePercentIsNotNamed) {
  // Two hundred micro-batches leave 1F1B next to nothing.
  const Advice advice = advise(measured(0.12), running({6, 6, 6, 6}, 400));
  EXPECT_THAT(advice.changes, IsEmpty());
  EXPECT_THAT(text_of(advice),
              ElementsAre("12.0 % idle: between 10 and 15 %, not urgent; what may help:",
                          "the planner knows no partition, schedule or number of chunks that gains 1 %"));
}

TEST(Advice, WhatIsNoBubbleIsNamedToo) {
  Measured busy = measured(0.5);
  busy.host = 0.3;
  busy.threads_per_processor = 1.5;
  busy.pause = 0.1;
  busy.reduction = 0.06;
  busy.replicas = 2;
  const Advice advice = advise(busy, std::nullopt, "the run's device is not here");
  EXPECT_THAT(advice.changes, IsEmpty());
  const std::vector<std::string> text = text_of(advice);
  EXPECT_THAT(text,
              Contains(AllOf(HasSubstr("hosts are late for 30.0 %"), HasSubstr("1.5 compute threads"))));
  EXPECT_THAT(text, Contains(HasSubstr("half as often gains 5.0 %")));
  EXPECT_THAT(text, Contains(HasSubstr("parallel.reduce_every")));
  EXPECT_EQ(text.back(), "nothing could be predicted: the run's device is not here");
  busy.replicas = 1;  // agreements of the ranks alone: no key shortens them
  EXPECT_THAT(text_of(advise(busy, std::nullopt, "")), Not(Contains(HasSubstr("parallel.reduce_every"))));
}

TEST(Advice, MemoryLimitsHold) {
  planner::PlanRequest request = running({9, 5, 5, 5});
  request.machine.memory_limit = {1};  // nothing fits
  const Advice advice = advise(measured(0.4), request);
  EXPECT_THAT(advice.changes, IsEmpty());
}

TEST(Advice, AsJson) {
  const nlohmann::json json = json_of(advise(measured(0.4), running({9, 5, 5, 5})));
  EXPECT_EQ(json["level"], "change_first");
  EXPECT_EQ(json["idle_ratio"], 0.4);
  ASSERT_FALSE(json["changes"].empty());
  EXPECT_GT(json["changes"][0]["predicted_gain"], 0.1);
  EXPECT_EQ(json["text"].size(), 1 + json["changes"].size() + json["hints"].size());
  EXPECT_FALSE(json.contains("unknown"));
}

}  // namespace
}  // namespace penstock::advice
