// What a job leaves open is planned, and what was planned is what runs.
#include "trainer/job_plan.h"

#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/transport/inproc/inproc_world.h"
#include "parallel/runtime/partition.h"
#include "tests/trainer/small_job.h"
#include "trainer/job/write_job.h"

namespace penstock {
namespace {

using planner::CutBy;
using planner::Recompute;
using ::testing::HasSubstr;

Job asked(const std::vector<std::string>& overrides) {
  return testing::small_job("/nowhere", overrides);
}

TEST(JobPlan, OnlyWhatIsOpenIsPlanned) {
  EXPECT_FALSE(leaves_open(asked({})));
  EXPECT_FALSE(leaves_open(asked({"parallel.pipeline=2", "parallel.partition=layers"})));
  EXPECT_FALSE(leaves_open(asked({"parallel.pipeline=2", "parallel.partition=[3,3]"})));
  EXPECT_TRUE(leaves_open(asked({"parallel.pipeline=2"})));
  EXPECT_TRUE(leaves_open(asked({"parallel.schedule=auto"})));
  EXPECT_TRUE(leaves_open(asked({"recompute.mode=auto"})));
  EXPECT_TRUE(
      leaves_open(asked({"parallel.pipeline=2", "parallel.partition=layers", "parallel.warmup_slack=auto"})));
  EXPECT_TRUE(leaves_open(asked({"parallel.pipeline=2", "parallel.partition=layers",
                                 "parallel.schedule=interleaved", "parallel.chunks=auto"})));
}

TEST(JobPlan, AutoLeavesChunksAndSlackOpenUnlessTheyAreGiven) {
  const Job open = asked({"parallel.pipeline=2", "parallel.schedule=auto"});
  EXPECT_EQ(open.parallel.chunks, 0);
  EXPECT_EQ(open.parallel.warmup_slack, -1);
  const Job fixed = asked(
      {"parallel.pipeline=2", "parallel.schedule=auto", "parallel.chunks=2", "parallel.warmup_slack=0"});
  EXPECT_EQ(fixed.parallel.chunks, 2);
  EXPECT_EQ(fixed.parallel.warmup_slack, 0);
  EXPECT_EQ(asked({"parallel.pipeline=2", "parallel.schedule=zbv"}).parallel.chunks, 2);
  EXPECT_EQ(asked({"parallel.pipeline=2", "parallel.schedule=1f1b"}).parallel.chunks, 1);
  // A list of stages says how many there are.
  EXPECT_EQ(asked({"parallel.pipeline=2", "parallel.schedule=auto", "parallel.partition=[2,1,1,2]"})
                .parallel.chunks,
            2);
  EXPECT_THROW(asked({"parallel.pipeline=2", "parallel.schedule=auto", "parallel.partition=[2,2,2]"}),
               JobError);
  EXPECT_THROW(
      asked({"parallel.pipeline=2", "parallel.schedule=auto", "recompute.stages=[\"full\",\"none\"]"}),
      JobError);
}

TEST(JobPlan, TheRequestKeepsWhatTheJobFixes) {
  const Job job = asked({"parallel.pipeline=2", "parallel.partition=[4,2]",
                         "recompute.stages=[\"full\",\"none\"]", "parallel.warmup_slack=1"});
  Backend backend = make_backend(job, 0);
  const JobCosts costs = costs_by_formula(job, backend, std::nullopt, "");
  const planner::PlanRequest request = plan_request(job, costs, 1 << 20);
  EXPECT_EQ(request.machine.ranks, 2);
  EXPECT_EQ(request.schedule, "1f1b");
  EXPECT_EQ(request.chunks, 1);
  EXPECT_EQ(request.slack, 1);
  EXPECT_EQ(request.cut, CutBy::listed);
  EXPECT_EQ(request.listed, (std::vector<int>{4, 2}));
  EXPECT_EQ(request.recompute.fixed, (std::vector<Recompute>{Recompute::full, Recompute::none}));
  EXPECT_EQ(request.machine.memory_limit, (std::vector<int64_t>{1 << 20}));
  ASSERT_EQ(request.workloads.size(), 1U);
  EXPECT_EQ(request.workloads[0].micro_batches, 4);
  const planner::PlanRequest one_mode =
      plan_request(asked({"recompute.mode=selective"}), costs, std::nullopt);
  EXPECT_EQ(one_mode.recompute.allowed, (std::array<bool, 3>{false, true, false}));
  EXPECT_TRUE(one_mode.machine.memory_limit.empty());
}

// The planner counts units as the runtime cuts them.
TEST(JobPlan, CutsByLayersParametersAndFlopsAreTheRuntimes) {
  for (const char* family : {"gpt2", "llama"}) {
    std::vector<std::string> overrides{"model.layers=5", std::string("model.family=") + family};
    if (std::string(family) == "llama") {
      overrides.insert(overrides.end(), {"model.ffn_hidden_size=80", "model.dropout=0.0"});
    }
    for (const auto method : {PartitionMethod::layers, PartitionMethod::parameters, PartitionMethod::flops}) {
      Job job = asked(overrides);
      job.parallel.pipeline = 4;
      job.parallel.partition = method;
      Backend backend = make_backend(job, 0);
      const JobCosts costs = costs_by_formula(job, backend, std::nullopt, "");
      const planner::Plan plan = planner::make_plan(plan_request(job, costs, std::nullopt));
      EXPECT_EQ(plan.chosen.layout.units, runtime::partition(job.model, method, {}, 4)) << family;
    }
  }
}

TEST(JobPlan, ADecidedJobIsAJobFileThatLeavesNothingOpen) {
  const Job job = asked({"parallel.pipeline=2", "parallel.schedule=auto", "recompute.mode=auto"});
  Backend backend = make_backend(job, 0);
  const PlannedJob planned = planned_job(job, backend, nullptr);
  EXPECT_FALSE(leaves_open(planned.job));
  EXPECT_NE(planned.job.parallel.schedule, "auto");
  const Job read = parse_job(to_toml(planned.job), "resolved", {});
  EXPECT_EQ(read, planned.job);
  ASSERT_TRUE(planned.plan);
  const runtime::PipelinePlan pipeline = runtime::plan_pipeline(planned.request);
  EXPECT_EQ(pipeline.units, planned.plan->chosen.layout.units);
  EXPECT_THAT(planned.note, HasSubstr("by formula"));
}

TEST(JobPlan, ModesThatDifferByStageAreListed) {
  planner::Plan plan;
  plan.chosen.schedule = "1f1b";
  plan.chosen.layout = {{4, 2}, {Recompute::full, Recompute::none}};
  Job job = decided_job(asked({"parallel.pipeline=2", "recompute.mode=auto"}), plan);
  EXPECT_EQ(job.recompute.mode, RecomputeMode::none);
  EXPECT_EQ(job.recompute.stages, (std::vector<RecomputeMode>{RecomputeMode::full, RecomputeMode::none}));
  plan.chosen.layout.recompute = {Recompute::selective, Recompute::selective};
  job = decided_job(asked({"parallel.pipeline=2", "recompute.mode=auto"}), plan);
  EXPECT_EQ(job.recompute.mode, RecomputeMode::selective);
  EXPECT_TRUE(job.recompute.stages.empty());
}

TEST(JobPlan, AllRanksHaveTheSamePlan) {
  const Job job = asked({"parallel.pipeline=3", "parallel.schedule=auto", "recompute.mode=auto"});
  std::mutex mutex;
  std::vector<Job> seen;
  int plans = 0;
  transport::run_inproc(3, {}, [&](transport::World& world) {
    const transport::AbortOnUnwind abort(world);
    Backend backend = make_backend(job, world.rank());
    const PlannedJob planned = planned_job(job, backend, &world);
    const std::lock_guard lock(mutex);
    seen.push_back(planned.job);
    plans += planned.plan ? 1 : 0;
  });
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[1], seen[0]);
  EXPECT_EQ(seen[2], seen[0]);
  EXPECT_EQ(plans, 1);
}

TEST(JobPlan, PlainJobsRunForGenerating) {
  const Job plain =
      plain_job(asked({"parallel.pipeline=2", "parallel.schedule=auto", "recompute.mode=auto"}));
  EXPECT_EQ(plain.parallel.schedule, "1f1b");
  EXPECT_EQ(plain.recompute.mode, RecomputeMode::none);
  EXPECT_EQ(runtime::plan_pipeline(pipeline_request(plain)).units.size(), 2U);
  const Job listed =
      plain_job(asked({"parallel.pipeline=2", "parallel.schedule=auto", "parallel.partition=[2,1,1,2]"}));
  EXPECT_EQ(runtime::plan_pipeline(pipeline_request(listed)).units, (std::vector<int>{2, 1, 1, 2}));
}

}  // namespace
}  // namespace penstock
