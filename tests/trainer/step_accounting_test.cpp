// What a run says about its time: every rank of every step, whole, and a prediction beside it.
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kernels/cpu/processor.h"
#include "tests/trainer/accounted_run.h"
#include "trainer/job_profile.h"
#include "trainer/run_account.h"
#include "trainer/run_folder.h"

namespace penstock {
namespace {

using nlohmann::json;
using StepAccountingTest = AccountedRun;

TEST_F(StepAccountingTest, OneRankHasNoBubble) {
  ASSERT_EQ(train(job("one"), {}), ExitCode::finished);
  const auto lines = metrics("one");
  ASSERT_EQ(lines.size(), 6u);
  expect_whole(lines, 1);
  for (const json& line : lines) {
    EXPECT_EQ(line["bubble_ratio"], 0);
    EXPECT_EQ(line["stage_imbalance"], 0);
  }
}

TEST_F(StepAccountingTest, EveryRankOfEveryReplicaIsThere) {
  ASSERT_EQ(train(job("deep", {"batch.global=8", "parallel.data=2", "parallel.pipeline=2",
                               "recompute.mode=full", "evaluation.every_steps=3"}),
                  {}),
            ExitCode::finished);
  const auto lines = metrics("deep");
  ASSERT_EQ(lines.size(), 6u);
  expect_whole(lines, 4);
  int roots = 0;
  for (size_t at = 0; at < lines.size(); ++at) {
    const json& ranks = lines[at]["ranks"];
    for (size_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(ranks[rank]["rank"], rank % 2);
      EXPECT_EQ(ranks[rank]["replica"], rank / 2);
      EXPECT_GT(ranks[rank]["recompute_ms"], 0);
      // A pause counts for the step behind it.
      EXPECT_EQ(ranks[rank].contains("evaluation_ms"), at == 3);
    }
    for (const json& rank : ranks) roots += rank.contains("root_rank") ? 1 : 0;
    EXPECT_TRUE(ranks[1].contains("fill_ms"));
    EXPECT_TRUE(ranks[1].contains("drain_ms"));
  }
  EXPECT_GT(roots, 0);
}

TEST_F(StepAccountingTest, ARunEndsWithPredictionAndMeasurement) {
  ASSERT_EQ(train(job("run", {"run.steps=12", "parallel.pipeline=2", "parallel.schedule=zb-h1"}), {}),
            ExitCode::finished);
  const auto lines = metrics("run");
  constexpr size_t known = RunAccount::warm_up_steps + RunAccount::measured_steps;
  for (size_t step = 1; step <= lines.size(); ++step)
    EXPECT_EQ(lines[step - 1].contains("predicted_step_ms"), step >= known) << step;
  const auto costs = events("run", "costs");
  ASSERT_EQ(costs.size(), 1u) << "the run's own costs are known once";
  EXPECT_EQ(costs[0]["step"], known);
  EXPECT_EQ(costs[0]["steps"], RunAccount::measured_steps);
  const auto predictions = events("run", "prediction");
  ASSERT_EQ(predictions.size(), 1u);
  const json& prediction = predictions[0];
  EXPECT_EQ(prediction["step"], 12);
  EXPECT_EQ(prediction["predicted_step_ms"], lines.back()["predicted_step_ms"]);
  EXPECT_GT(prediction["step_ms"], 0);
  EXPECT_GT(prediction["predicted_bubble_ratio"], 0);
  EXPECT_LT(prediction["predicted_bubble_ratio"], 1);
  double predicted = 0;
  for (const json& cause : prediction["causes"]) predicted += cause["predicted_ms"].get<double>();
  EXPECT_NEAR(predicted, prediction["predicted_step_ms"].get<double>(), 1e-6);
  EXPECT_GT(prediction["causes"]["forward"]["ms"], 0);
  ASSERT_EQ(prediction["memory"]["ranks"].size(), 2u);
  EXPECT_GT(prediction["memory"]["ranks"][1]["predicted_memory_bytes"], 0);
  EXPECT_GT(prediction["memory"]["process_peak_bytes"], 0);
}

TEST_F(StepAccountingTest, AShortRunIsPredictedFromWhatItHas) {
  ASSERT_EQ(train(job("short", {"run.steps=4"}), {}), ExitCode::finished);
  EXPECT_EQ(events("short", "prediction").size(), 1u);
  ASSERT_EQ(train(job("shorter", {"run.steps=2"}), {}), ExitCode::finished);
  EXPECT_TRUE(events("shorter", "prediction").empty());
}

// With processors of their own, ranks that have a profile are predicted from the first step on.
TEST_F(StepAccountingTest, AProfilePredictsBeforeTheRunsOwnCosts) {
  const Job asked = job("profiled", {"run.steps=12"});
  Backend backend = make_backend(asked, 0);
  const runtime::ProfileRequest request =
      profile_request(asked, {asked.batch.micro}, {planner::Recompute::none});
  planner::Profile profile = runtime::profile_skeleton(backend.math, request);
  profile.device = backend.device->description();
  profile.threads = asked.parallel.threads;
  describe(profile, asked);
  for (planner::MeasuredUnit& unit : profile.units) {
    unit.optimizer_step.median = 1e-3;
    for (planner::MeasuredMode& mode : unit.sizes.front().modes) {
      mode.forward.median = 1;
      mode.backward_input.median = 1;
      mode.backward_weight.median = 1;
    }
  }
  const RunPaths paths(run("profiled"));
  fs::create_directories(run("profiled"));
  std::ofstream(paths.profile()) << planner::write_profile(profile);
  ASSERT_EQ(train(asked, {}), ExitCode::finished);
  const auto lines = metrics("profiled");
  constexpr size_t known = RunAccount::warm_up_steps + RunAccount::measured_steps;
  const double units = static_cast<double>(2 * asked.model.layers + 2);
  const double planned = 1e3 * (3 * units * static_cast<double>(asked.micro_batches()) + 1e-3 * units);
  for (size_t step = 1; step < known; ++step)
    EXPECT_NEAR(lines[step - 1]["predicted_step_ms"], planned, 1e-6 * planned);
  // The tiny model takes no hours.
  EXPECT_LT(lines.back()["predicted_step_ms"], planned / 10);
  const auto predictions = events("profiled", "prediction");
  ASSERT_EQ(predictions.size(), 1u);
  EXPECT_NEAR(predictions[0]["planned_step_ms"], planned, 1e-6 * planned);
  EXPECT_EQ(events("profiled", "costs")[0]["source"].get<std::string>().find("as measured"), 11u);
}

// What a profile says is not what ranks that share processors will take.
TEST_F(StepAccountingTest, AnOversubscribedMachineIsNamed) {
  const auto processors = static_cast<int64_t>(cpu::allowed_processors().size());
  const Job asked =
      job("crowded", {"run.steps=4", "parallel.pipeline=2", fmt::format("parallel.threads={}", processors)});
  ASSERT_EQ(train(asked, {}), ExitCode::finished);
  const auto predictions = events("crowded", "prediction");
  ASSERT_EQ(predictions.size(), 1u);
  EXPECT_EQ(predictions[0]["threads_per_processor"], 2);
}

}  // namespace
}  // namespace penstock
