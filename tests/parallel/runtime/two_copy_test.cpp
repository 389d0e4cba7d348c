// Schedules with two copies of the weights. What a step computes does not depend on which copy is where: each
// copy is as good as a replica, so that the bits are those of twice the replicas on one rank each, whatever
// the schedule, the ranks, the cut, recomputation, transport and threads. One rank alone adds the same
// gradients in another order. (train() fails where two copies of a parameter differ in a bit.)
#include <cmath>
#include <cstdio>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/csv.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

using ::testing::HasSubstr;

class TwoCopies : public ::testing::TestWithParam<std::tuple<std::string, bool, bool>> {
 protected:
  std::string schedule() const { return std::get<0>(GetParam()); }
  ModelSection model() const { return tiny_model(std::get<1>(GetParam()), std::get<2>(GetParam())); }
};

TEST_P(TwoCopies, SameBitsAsTwiceTheReplicas) {
  for (const auto& [pipeline, micro_batches, replicas] :
       {std::tuple(2, 4, 1), std::tuple(2, 10, 1), std::tuple(4, 8, 1), std::tuple(4, 10, 1),
        std::tuple(2, 6, 2), std::tuple(4, 8, 2), std::tuple(2, 4, 3)}) {
    SCOPED_TRACE(fmt::format("P = {}, M = {}, D = {}", pipeline, micro_batches, replicas));
    const Job job = make_job(model(), pipeline, schedule(), 1, micro_batches, replicas);
    expect_same(train(job), train(replicas_for_copies(job)));
  }
}

TEST_P(TwoCopies, SameBitsWhereTheyShareAnOptimizer) {
  for (const auto& [pipeline, micro_batches, replicas] :
       {std::tuple(2, 4, 1), std::tuple(4, 10, 1), std::tuple(4, 8, 2), std::tuple(2, 6, 3)}) {
    for (const DType compute : {DType::fp32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("P = {}, M = {}, D = {}", pipeline, micro_batches, replicas));
      Job job = make_job(model(), pipeline, schedule(), 1, micro_batches, replicas);
      job.request.common.compute = compute;
      job.request.parallel.sharded_optimizer = true;
      expect_same(train(job), train(replicas_for_copies(job)));
    }
  }
}

TEST_P(TwoCopies, WhateverElseDiffers) {
  const Job job = make_job(model(), 4, schedule(), 1, 8, 2);
  const Result expected = train(replicas_for_copies(job));
  for (const Job& other : same_results(job)) expect_same(train(other), expected);
}

TEST_P(TwoCopies, NarrowComputeAndWire) {
  Job job = make_job(model(), 4, schedule(), 1, 8);
  job.request.common.compute = DType::bf16;
  expect_same(train(job), train(replicas_for_copies(job)));
  job.request.gradient_wire = DType::bf16;
  expect_same(train(job), train(replicas_for_copies(job)));
}

// The tolerance that docs/schedules.md states.
TEST_P(TwoCopies, NearOneRank) {
  Job job = make_job(model(), 4, schedule(), 1, 8);
  job.steps = 10;
  Job alone = make_job(model(), 1, "1f1b", 1, 8);
  alone.steps = job.steps;
  const Result found = train(job);
  const Result expected = train_locally(alone);
  EXPECT_NEAR(found.norms[0], expected.norms[0], 1e-6 * expected.norms[0]);
  for (size_t step = 0; step < expected.losses.size(); ++step)
    EXPECT_NEAR(found.losses[step], expected.losses[step], (step == 0 ? 1e-12 : 1e-4) * expected.losses[step])
        << step;
}

INSTANTIATE_TEST_SUITE_P(All, TwoCopies,
                         ::testing::Combine(::testing::ValuesIn(two_copy_schedules()), ::testing::Bool(),
                                            ::testing::Bool()),
                         [](const auto& test) {
                           return fmt::format("{}_{}_{}", std::get<0>(test.param),
                                              std::get<1>(test.param) ? "llama" : "gpt2",
                                              std::get<2>(test.param) ? "tied" : "untied");
                         });

TEST(TwoCopySums, LibrarysAreTheOrderedOnes) {
  Job job = make_job(tiny_llama(), 4, "dualpipe", 1, 8);
  const Result expected = train(job);
  job.request.parallel.gradient_sum = GradientSum::library;
  expect_same(train(job), expected);
}

// A schedule from a file, in PyTorch's notation: the same program, and one with other numbers of
// micro-batches a direction.
std::string written(const schedule::Schedule& made, const std::string& name) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << schedule::write_csv(made);
  return path;
}

TEST(TwoCopyFiles, RunAsTheyAreWritten) {
  schedule::ScheduleOptions options;
  options.ranks = 4;
  options.micro_batches = 8;
  for (const std::string& name : two_copy_schedules()) {
    const std::string path = written(schedule::generate(name, options), name + ".csv");
    Job job = make_job(tiny_gpt2(), 4, "file:" + path, 1, 8);
    expect_same(train(job), train(replicas_for_copies(job)));
    std::remove(path.c_str());
  }
}

TEST(TwoCopyFiles, DirectionsMayHaveDifferentShares) {
  const std::string path = ::testing::TempDir() + "uneven.csv";
  // Copy 0 computes micro-batches 0 and 2, copy 1 micro-batch 1. Stage 2 is the second copy's first, on
  // rank 1.
  std::ofstream(path) << "0F0,0F2,3F1,3B1,0B0,0B2\n2F1,1F0,1B0,1F2,1B2,2B1\n";
  const Job job = make_job(tiny_gpt2(), 2, "file:" + path, 1, 3);
  const Result found = train(job);
  const Result expected = train_locally(make_job(tiny_gpt2(), 1, "1f1b", 1, 3));
  EXPECT_NEAR(found.losses[0], expected.losses[0], 1e-12 * expected.losses[0]);
  EXPECT_NEAR(found.norms[0], expected.norms[0], 1e-6 * expected.norms[0]);
  EXPECT_NEAR(found.losses[2], expected.losses[2], 1e-4 * expected.losses[2]);
  std::remove(path.c_str());
}

// Copies whose first and last stages are on four ranks exchange the tied weight's accumulators.
TEST(TwoCopyFiles, TiedWeightsBetweenRanks) {
  const std::string path = ::testing::TempDir() + "crossed.csv";
  // Copy 0: blocks on ranks 0, 3, 2, 1; copy 1 on 3, 0, 1, 2.
  std::ofstream(path) << "0F0,5F1,5B1,0B0\n"
                         "6F1,6B1,3F0,3B0\n"
                         "7F1,7B1,2F0,2B0\n"
                         "4F1,1F0,1B0,4B1\n";
  Job job = make_job(tiny_model(false, true), 4, "file:" + path, 1, 2);
  const runtime::PipelinePlan plan = runtime::plan_pipeline(job.request);
  EXPECT_EQ(plan.training.schedule.rank_of_stage, (std::vector<int>{0, 3, 2, 1, 3, 0, 1, 2}));
  expect_same(train(job), train(replicas_for_copies(job)));
  std::remove(path.c_str());
}

TEST(TwoCopyFiles, OddRanksAreRefused) {
  const std::string path = ::testing::TempDir() + "odd.csv";
  std::ofstream(path) << "0F0,5F1,5B1,0B0\n1F0,4F1,4B1,1B0\n3F1,2F0,2B0,3B1\n";
  try {
    runtime::plan_pipeline(make_job(tiny_gpt2(), 3, "file:" + path, 1, 2).request);
    ADD_FAILURE() << "planned";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("take an even number"));
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace penstock::testing
