// `penstock plan job.toml` as a user starts it.
#include "trainer/commands/plan_job.h"

#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "parallel/planner/plan.h"
#include "parallel/planner/profile.h"
#include "trainer/job/problems.h"
#include "trainer/memory_limit.h"

namespace penstock::commands {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kRoot = PENSTOCK_SOURCE_DIR;
const std::string kJob = kRoot + "/configs/tuning/job.toml";
const std::string kProfile = kRoot + "/configs/tuning/profile.json";
const std::string kCluster = kRoot + "/configs/clusters/h100-dgx.toml";

std::string answer(const std::vector<std::string>& overrides, const PlanJobOptions& options,
                   bool json = false) {
  std::ostringstream out;
  EXPECT_EQ(run_plan_job({kJob, overrides}, options, json, out), 0);
  return out.str();
}

nlohmann::json plan_of(const std::vector<std::string>& overrides, const PlanJobOptions& options) {
  return nlohmann::json::parse(answer(overrides, options, true)).at("plan");
}

PlanJobOptions with_profile() {
  PlanJobOptions options;
  options.profile = kProfile;
  return options;
}

PlanJobOptions on_cluster() {
  PlanJobOptions options;
  options.cluster = kCluster;
  return options;
}

TEST(PlanJob, PrintsStagesStepLimitsAndChanges) {
  const std::string text = answer({}, with_profile());
  for (const char* part : {"8 pipeline ranks; 8 micro-batches of 4 x 4096 tokens",
                           "as measured on paper",
                           "embedding to mlp_3",
                           "attention_28 to head",
                           "predicted step",
                           "tokens a second",
                           "micro-batch latency",
                           "rank-span",
                           "imbalance",
                           "idle of a rank (mean) fill",
                           "held back: ",
                           "> 1f1b",
                           "zbv",
                           "interleaved, ",
                           "two copies of the weights: taken by name only",
                           "asynchronous, gradients one update old: taken by name only",
                           "parallel.schedule = \"auto\" would take",
                           "cut by",
                           "one chunk more",
                           "twice the micro-batches",
                           "links twice as fast",
                           "a head a quarter lighter"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("a quarter more memory"))) << "there is no limit";
}

TEST(PlanJob, BriefLeavesTheTablesOut) {
  PlanJobOptions options = with_profile();
  options.brief = true;
  const std::string text = answer({}, options);
  EXPECT_THAT(text, AllOf(HasSubstr("predicted step"), HasSubstr("held back"), Not(HasSubstr("attention_28")),
                          Not(HasSubstr("zbv"))));
  options.memory = true;
  EXPECT_THAT(answer({}, options), AllOf(HasSubstr("rank 7"), HasSubstr("host batches")));
}

TEST(PlanJob, JsonHasTheNamesOfMetrics) {
  const auto plan = plan_of({}, with_profile());
  for (const char* name : {"predicted_step_ms", "tokens_per_second", "micro_batch_latency_ms", "bubble_ratio",
                           "bubble_ratio_rank_span", "idle_ratio", "stage_imbalance", "slowest_stage",
                           "fill_ms", "drain_ms", "memory_peak_bytes"})
    EXPECT_TRUE(plan.at(name).is_number()) << name;
  EXPECT_EQ(plan.at("stages").size(), 8U);
  EXPECT_EQ(plan.at("ranks").size(), 8U);
  EXPECT_EQ(plan.at("partition"), (std::vector<int>{9, 8, 8, 8, 8, 8, 8, 9}));
  EXPECT_EQ(plan.at("schedule"), "1f1b");
  EXPECT_GT(plan.at("schedules").size(), 12U);
  EXPECT_EQ(plan.at("cuts").size(), 3U);
  double parts = 0;
  for (const auto& [name, milliseconds] : plan.at("parts").items()) parts += milliseconds.get<double>();
  EXPECT_NEAR(parts, plan.at("predicted_step_ms").get<double>(), 1e-6 * parts);
  // Layers are cut, the head is not counted: the last rank is 18 % slower than the mean.
  EXPECT_EQ(plan.at("slowest_stage"), 7);
}

TEST(PlanJob, OpenJobsAreNeverWorseThanFixedOnes) {
  const double fixed = plan_of({"batch.micro=1"}, with_profile()).at("predicted_step_ms");
  const double cut =
      plan_of({"batch.micro=1", "parallel.partition=measured"}, with_profile()).at("predicted_step_ms");
  const auto open =
      plan_of({"batch.micro=1", "parallel.partition=measured", "parallel.schedule=auto"}, with_profile());
  EXPECT_LT(cut, 0.99 * fixed);
  EXPECT_LT(open.at("predicted_step_ms").get<double>(), 0.95 * cut);
  for (const auto& row : open.at("schedules")) {
    if (row.contains("refused")) continue;  // shown, not run
    EXPECT_EQ(row.at("schedule"), open.at("schedule")) << "the best comes first";
    break;
  }
}

TEST(PlanJob, MicroBatchesMayBeChosenToo) {
  PlanJobOptions options = with_profile();
  EXPECT_EQ(plan_of({}, options).at("micro_batch"), 4);
  options.any_micro = true;
  const auto plan = plan_of({}, options);
  EXPECT_LT(plan.at("micro_batch"), 4);
  EXPECT_EQ(plan.at("micro_batch").get<int>() * plan.at("micro_batches").get<int>(), 32);
}

TEST(PlanJob, MemoryLimitsChooseRecomputation) {
  const std::vector<std::string> open{"batch.micro=1", "parallel.partition=measured", "recompute.mode=auto"};
  const auto roomy = plan_of(open, with_profile());
  for (const auto& mode : roomy.at("recompute")) EXPECT_EQ(mode, "none");
  std::vector<std::string> tight = open;
  const double peak = roomy.at("memory_peak_bytes").get<double>() / (1 << 30);
  tight.push_back(fmt::format("parallel.memory_limit_gib={}", 0.9 * peak));
  const auto plan = plan_of(tight, with_profile());
  EXPECT_TRUE(plan.at("fits").get<bool>());
  EXPECT_LE(plan.at("memory_peak_bytes").get<double>(), 0.9 * peak * (1 << 30));
  EXPECT_GT(plan.at("predicted_step_ms"), roomy.at("predicted_step_ms"));
  EXPECT_THAT(answer(tight, with_profile()), HasSubstr("a quarter more memory"));
}

TEST(PlanJob, ClustersArePlannedByTheirRates) {
  const std::vector<std::string> overrides{"parallel.data=1"};
  const std::string text = answer(overrides, on_cluster());
  EXPECT_THAT(text,
              AllOf(HasSubstr("the rates of DGX H100"), HasSubstr("of each device"), HasSubstr("of 79.9")));
  try {
    answer({"parallel.data=300", "batch.global=1200"}, on_cluster());
    FAIL() << "more ranks than the cluster has";
  } catch (const planner::PlanError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("8 x 300 = 2400"), HasSubstr("256 nodes of 8")));
  }
  PlanJobOptions both = on_cluster();
  both.profile = kProfile;
  EXPECT_THROW(answer({}, both), planner::PlanError);
}

TEST(PlanJob, ThousandsOfRanksArePlanned) {
  PlanJobOptions options = on_cluster();
  options.brief = true;
  const std::string text =
      answer({"parallel.pipeline=32", "parallel.data=64", "batch.global=8192", "batch.micro=1"}, options);
  EXPECT_THAT(text, AllOf(HasSubstr("32 pipeline ranks x 64 replicas"), HasSubstr("2048 devices")));
}

TEST(PlanJob, ProfilesOfOtherModelsAreRefused) {
  try {
    answer({"model.layers=30"}, with_profile());
    FAIL() << "planned";
  } catch (const planner::ProfileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("model.layers: 32 was profiled, the job has 30"));
  }
}

// A cluster's whole size is what "auto" takes: who wrote the job for fewer ranks is told so.
TEST(PlanJob, AJobForFewerRanksIsToldWhatAutoTakes) {
  try {
    answer({}, on_cluster());
    FAIL() << "32 sequences on 256 replicas";
  } catch (const JobError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("batch.global: 32 sequences are no multiple of micro · data = 4 · 256"),
                      HasSubstr("parallel.data = \"auto\" makes 256 replicas of all 2048 ranks"),
                      HasSubstr("set parallel.data")));
  }
  EXPECT_THAT(answer({"parallel.data=8"}, on_cluster()), HasSubstr("8 pipeline ranks x 8 replicas"));
}

// Elsewhere or here, a plan and a run reserve the same for what lies outside the arenas.
TEST(PlanJob, LimitsLeaveTheReserve) {
  const std::string text = answer({"parallel.memory_limit_gib=40"}, with_profile());
  EXPECT_THAT(text, HasSubstr(" of 39.93 GiB that it may use"));
}

TEST(PlanJob, WhatFitsNowhereSaysByHowMuchOnEachRankAndIsRefused) {
  std::ostringstream out;
  EXPECT_THROW(
      run_plan_job({kJob, {"parallel.memory_limit_gib=20", "batch.micro=1"}}, with_profile(), false, out),
      MemoryLimitError);
  EXPECT_THAT(out.str(), AllOf(HasSubstr("nothing fits: of all that the job leaves open"),
                               HasSubstr("\n  rank 0 needs "), HasSubstr(" more than the 19.9"),
                               HasSubstr("set parallel.partition"), HasSubstr("or raise the limit")));
  EXPECT_THAT(answer({"parallel.memory_limit_gib=60", "batch.micro=1"}, with_profile()),
              Not(HasSubstr("nothing fits")));
}

// A job of this machine that asks for more than it may have is planned, printed, and refused.
TEST(PlanJob, LimitsOfThisMachineAreChecked) {
  std::ostringstream out;
  EXPECT_THROW(run_plan_job({kJob, {"parallel.memory_limit_gib=0.001"}}, {}, false, out), MemoryLimitError);
  EXPECT_THAT(out.str(), HasSubstr("predicted step"));
}

// By a profile of another machine the ranks have processors of their own; here they would not.
TEST(PlanJob, SaysWhereRanksOutnumberTheProcessors) {
  const std::vector<std::string> small{
      "parallel.threads=4096", "model.layers=8",           "model.hidden_size=64",
      "model.heads=4",         "model.kv_heads=4",         "model.ffn_hidden_size=128",
      "model.vocab_size=512",  "model.sequence_length=32", "precision.compute=fp32"};
  const auto here = plan_of(small, {});
  ASSERT_TRUE(here.contains("oversubscribed"));
  EXPECT_GT(here["oversubscribed"]["threads_per_processor"], 1);
  EXPECT_GE(here["oversubscribed"]["least_step_ms"], here["predicted_step_ms"]);
  EXPECT_NE(answer(small, {}).find("8 ranks x 4096 threads share"), std::string::npos);
  EXPECT_FALSE(plan_of({"parallel.threads=4096"}, with_profile()).contains("oversubscribed"));
}

}  // namespace
}  // namespace penstock::commands
