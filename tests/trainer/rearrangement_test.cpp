// Runs that are arranged otherwise while they train: no bit of them may change (contract C1).
#include <cmath>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/trainer/tiny_training.h"
#include "trainer/backend.h"
#include "trainer/job_plan.h"
#include "trainer/memory_report.h"

namespace penstock {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Acts = std::map<int64_t, std::string>;

TrainOptions acting(Acts acts) {
  TrainOptions options;
  options.acts = std::move(acts);
  return options;
}

struct RearrangementTest : TrainingTest {
  RearrangementTest() {
    EXPECT_EQ(train(job("straight", {"batch.global=8", "model.layers=4"}), {}), ExitCode::finished);
  }

  Job arranged(const std::string& name, std::vector<std::string> settings) const {
    settings.emplace_back("batch.global=8");
    settings.emplace_back("model.layers=4");
    return job(name, settings);
  }

  // Losses, norms and parameters of the run are those of one rank that nobody touched; and it was arranged
  // otherwise as often as was asked.
  void expect_unchanged(const std::string& name, size_t rearranged,
                        const std::string& straight = "straight") {
    expect_same_model(open(straight, 6), open(name, 6));
    EXPECT_EQ(open(straight, 6).manifest().state.at("spike_losses"),
              open(name, 6).manifest().state.at("spike_losses"));
    const std::vector<json> expected = metrics(straight);
    const std::vector<json> found = metrics(name);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t step = 0; step < found.size(); ++step) {
      EXPECT_EQ(found[step]["loss"], expected[step]["loss"]) << name << " step " << step;
      EXPECT_EQ(found[step]["grad_norm"], expected[step]["grad_norm"]) << name << " step " << step;
      EXPECT_FALSE(found[step]["ranks"].empty()) << "every step is accounted for";
    }
    EXPECT_EQ(events(name, "rearranged").size(), rearranged) << name;
  }
};

TEST_F(RearrangementTest, UnitsMoveBetweenRanks) {
  ASSERT_EQ(train(arranged("run", {"parallel.pipeline=4", "parallel.partition=[3, 2, 2, 3]"}),
                  acting({{1, "repartition 1 2 6 1"}, {2, "repartition 5 1 1 3"}, {4, "revert"}})),
            ExitCode::finished);
  expect_unchanged("run", 3);
  const json back = events("run", "rearranged").back();
  EXPECT_EQ(back["units"], (std::vector<int>{1, 2, 6, 1}));
  EXPECT_GT(back["moved_bytes"], 0);
  EXPECT_EQ(back["step"], 4);
}

TEST_F(RearrangementTest, SchedulesChange) {
  ASSERT_EQ(
      train(arranged("run", {"parallel.pipeline=2", "evaluation.every_steps=2", "evaluation.batches=2"}),
            acting({{1, "schedule zbv"},
                    {2, "schedule interleaved 2"},
                    {3, "schedule zbv"},
                    {5, "schedule 1f1b"}})),
      ExitCode::finished);
  expect_unchanged("run", 4);
}

TEST_F(RearrangementTest, RecomputationSlackAndChunksChange) {
  ASSERT_EQ(train(arranged("run", {"parallel.pipeline=2", "trace.steps=[2, 4]"}),
                  acting({{1, "recompute full"},
                          {2, "warmup_slack 1"},
                          {3, "recompute none selective"},
                          {4, "schedule interleaved 2"},
                          {5, "chunks 3"}})),
            ExitCode::finished);
  expect_unchanged("run", 5);
  for (const char* trace : {"step-00000002.json", "step-00000004.json"})
    EXPECT_TRUE(fs::exists(run("run") / "trace" / trace)) << trace;
}

TEST_F(RearrangementTest, ReplicasMoveTheSameUnits) {
  ASSERT_EQ(train(job("flat", {"batch.global=8", "model.layers=4", "parallel.data=2"}), {}),
            ExitCode::finished);
  ASSERT_EQ(train(arranged("run", {"parallel.pipeline=2", "parallel.data=2"}),
                  acting({{1, "repartition 7 3"}, {3, "schedule zbv"}, {4, "recompute full"}})),
            ExitCode::finished);
  expect_unchanged("run", 3, "flat");
}

// The one action that is seen in the losses: from its step on the run is one of the other size, also after an
// interruption.
TEST_F(RearrangementTest, MicroBatchesChangeTheirSize) {
  const std::vector<std::string> ranks{"parallel.pipeline=2", "checkpoint.every_steps=1",
                                       "bubble_budget.actions=[\"micro_batch\"]"};
  std::vector<std::string> half = ranks;
  half.emplace_back("run.steps=3");
  ASSERT_EQ(train(arranged("run", half), acting({{2, "micro_batch 4"}})), ExitCode::finished);
  ASSERT_EQ(train(arranged("run", ranks), {}), ExitCode::finished);
  // The same by two runs, of which the second goes on with the first one's checkpoint.
  ASSERT_EQ(train(arranged("two", {"run.steps=2"}), {}), ExitCode::finished);
  TrainOptions accepting;
  accepting.accept_changes = true;
  ASSERT_EQ(train(arranged("two", {"batch.micro=4"}), accepting), ExitCode::finished);
  expect_same_model(open("two", 6), open("run", 6));
  ASSERT_EQ(metrics("run").size(), 6u);
  for (size_t step = 0; step < 6; ++step)
    EXPECT_EQ(metrics("run")[step]["loss"], metrics("two")[step]["loss"]);
}

TEST_F(RearrangementTest, AnInterruptedRunGoesOnAsItWasArranged) {
  const std::vector<std::string> ranks{"parallel.pipeline=2", "checkpoint.every_steps=1"};
  std::vector<std::string> half = ranks;
  half.emplace_back("run.steps=3");
  ASSERT_EQ(train(arranged("run", half), acting({{1, "repartition 2 8"}, {2, "schedule zbv"}})),
            ExitCode::finished);
  ASSERT_EQ(train(arranged("run", ranks), acting({{5, "revert"}})), ExitCode::finished);
  expect_unchanged("run", 3);
  EXPECT_EQ(events("run", "rearranged").back()["units"], (std::vector<int>{2, 8}))
      << "to what it was before the interruption and the schedule";
  // Without what was saved it begins as it is planned.
  const json saved = open("run", 6).manifest().state.at("budget");
  EXPECT_NE(saved["arrangement"], saved["first"]);
}

TEST_F(RearrangementTest, AnotherPipelineGivesUpWhatWasChanged) {
  ASSERT_EQ(train(arranged("run", {"parallel.pipeline=2", "run.steps=3"}), acting({{1, "repartition 2 8"}})),
            ExitCode::finished);
  ASSERT_EQ(train(arranged("run", {"parallel.pipeline=3"}), {}), ExitCode::finished);
  expect_unchanged("run", 1);
  EXPECT_EQ(open("run", 6).manifest().state.count("budget"), 0u);
}

// Whatever fails on whichever rank leaves the old arrangement running, and everybody is told why.
TEST_F(RearrangementTest, AFailedMoveLeavesTheOldArrangement) {
  for (const std::string phase : {"build", "moved"}) {
    TrainOptions options = acting({{1, "repartition 2 8"}, {3, "schedule zbv"}});
    int failures = 0;
    options.at_rearrangement = [&](int rank, std::string_view at) {
      if (rank == 1 && at == phase && failures++ == 0) throw std::runtime_error("a fault on purpose");
    };
    ASSERT_EQ(train(arranged(phase, {"parallel.pipeline=2"}), options), ExitCode::finished);
    expect_unchanged(phase, 1);
    EXPECT_EQ(events(phase, "rearranged").front()["schedule"], "zbv");
    const std::vector<json> refused = events(phase, "budget_refused");
    ASSERT_EQ(refused.size(), 1u);
    EXPECT_THAT(refused[0]["why"].get<std::string>(), AllOf(HasSubstr("rank 1"), HasSubstr("on purpose")));
  }
}

TEST_F(RearrangementTest, WhatCannotBeDoneIsSaidAndNothingHappens) {
  const Acts wrong{{1, "repartitoin"},
                   {2, "repartition 4 4"},
                   {3,
                    "schedule"
                    " warp"},
                   {4, "revert"},
                   {5, "recompute some"}};
  ASSERT_EQ(train(arranged("run", {"parallel.pipeline=2"}), acting(wrong)), ExitCode::finished);
  expect_unchanged("run", 0);
  const std::vector<json> refused = events("run", "budget_refused");
  ASSERT_EQ(refused.size(), wrong.size());
  EXPECT_THAT(refused[0]["why"].get<std::string>(),
              AllOf(HasSubstr("repartitoin"), HasSubstr("repartition, ")));
  EXPECT_THAT(refused[1]["why"].get<std::string>(), HasSubstr("10"));
  EXPECT_THAT(refused[2]["why"].get<std::string>(), HasSubstr("warp"));
  EXPECT_THAT(refused[4]["why"].get<std::string>(), HasSubstr("some"));
}

TEST_F(RearrangementTest, ThereMustBeRoomForBoth) {
  Job tight = arranged("tight", {"parallel.pipeline=2", "parallel.partition=[5, 5]"});
  Backend planning = make_backend(tight, 0);
  const PlannedJob decided = planned_job(tight, planning, nullptr);
  const MemoryReport report = memory_report(decided.job, planning, plan_pipeline(decided.request));
  const auto most = static_cast<double>(std::max(report.total(0), report.total(1)));
  tight.parallel.memory_limit_gib = (most + 1e5) / (1 << 30);
  ASSERT_EQ(train(tight, acting({{2, "repartition 4 6"}})), ExitCode::finished);
  expect_unchanged("tight", 0);
  const std::vector<json> refused = events("tight", "budget_refused");
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_THAT(refused[0]["why"].get<std::string>(), AllOf(HasSubstr("beside"), HasSubstr("bytes")));
}

TEST_F(RearrangementTest, AControlFileAsks) {
  fs::create_directories(run("run") / "control");
  std::ofstream(run("run") / "control" / "act") << "schedule gpipe\n";
  // The second request, which is none, makes the run wait for the first.
  ASSERT_EQ(train(arranged("run", {"parallel.pipeline=2"}), acting({{3, "nothing"}})), ExitCode::finished);
  EXPECT_FALSE(fs::exists(run("run") / "control" / "act"));
  expect_unchanged("run", 1);
  EXPECT_EQ(events("run", "rearranged")[0]["schedule"], "gpipe");
  EXPECT_EQ(events("run", "budget_by_hand")[0]["request"], "schedule gpipe");
}

// A limit that every step breaks: the alarm goes wherever somebody may look.
TEST_F(RearrangementTest, AnAlarmIsHeardEverywhere) {
  const std::string heard = (root / "heard").string();
  Job loud = arranged("loud", {"parallel.pipeline=2", "run.steps=40", "log.prometheus=true",
                               "bubble_budget.bubble_ratio=0.000001", "bubble_budget.window_steps=2",
                               "bubble_budget.patience=1", "bubble_budget.warmup_steps=1"});
  loud.bubble_budget.on_alarm = fmt::format(
      "echo \"$PENSTOCK_RUN $PENSTOCK_LIMIT $PENSTOCK_LIMIT_VALUE\" > {0}.part && mv {0}.part {0}", heard);
  // The request, which is none, makes the run wait for what the controller finds out.
  ASSERT_EQ(train(loud, acting({{20, "nothing"}})), ExitCode::finished);
  const std::vector<json> alarms = events("loud", "budget_alarm");
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_EQ(alarms[0]["limit"], "bubble_ratio");
  EXPECT_EQ(alarms[0]["will"], "nothing: bubble_budget.actions allows nothing");
  std::stringstream said;
  said << std::ifstream(heard).rdbuf();
  EXPECT_EQ(said.str(), "loud bubble_ratio 1e-06\n");
  std::stringstream prom;
  prom << std::ifstream(run("loud") / "metrics.prom").rdbuf();
  EXPECT_THAT(prom.str(), HasSubstr("penstock_budget_alarming{run=\"loud\",limit=\"bubble_ratio\"} 1\n"));
  EXPECT_THAT(prom.str(), HasSubstr("penstock_step{run=\"loud\"} 40\n"));
  EXPECT_EQ(events("loud", "trace").size(), 1u) << "of the step after the alarm";
}

// Stages that are cut badly, and a budget that is always broken: whatever the machine's noise lets the
// controller do, the run is the same; also when it is stopped in the middle of its first trial.
TEST_F(RearrangementTest, ABudgetThatActsChangesNoBit) {
  const std::vector<std::string> steps{"run.steps=120", "checkpoint.every_steps=40"};
  ASSERT_EQ(train(arranged("long", steps), {}), ExitCode::finished);
  std::vector<std::string> settings = steps;
  for (const char* each :
       {"parallel.pipeline=2", "parallel.partition=[1, 9]", "bubble_budget.bubble_ratio=0.0001",
        "bubble_budget.window_steps=4", "bubble_budget.patience=2", "bubble_budget.warmup_steps=2",
        "bubble_budget.cooldown_windows=1", "bubble_budget.actions=[\"repartition\", \"schedule\"]"})
    settings.emplace_back(each);
  TrainOptions options = acting({{60, "nothing"}});
  bool stopped = false;
  options.at_rearrangement = [&](int rank, std::string_view phase) {
    if (rank != 0 || phase != "moved" || stopped) return;
    stopped = true;
    std::ofstream(run("run") / "control" / "stop").put('\n');
  };
  const ExitCode first = train(arranged("run", settings), options);
  ASSERT_EQ(first, stopped ? ExitCode::stopped : ExitCode::finished);
  if (stopped) {
    const json status = json::parse(std::ifstream(run("run") / "status.json"));
    EXPECT_EQ(open("run", status["step"]).manifest().state.count("budget"), 0u)
        << "a trial ends with the run";
    ASSERT_EQ(train(arranged("run", settings), {}), ExitCode::finished);
  }
  EXPECT_FALSE(events("run", "budget_alarm").empty());
  expect_same_model(open("long", 120), open("run", 120));
}

}  // namespace
}  // namespace penstock
