// Contract C1 between processes: what every rank of an MPI world trains is, bit by bit, what ranks of one
// process train.
#include <cstdio>
#include <exception>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/transport/mpi_world.h"
#include "tests/parallel/runtime/delayed.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

void expect_part_of(const Result& mine, const Result& expected) {
  EXPECT_EQ(mine.losses, expected.losses);
  EXPECT_EQ(mine.norms, expected.norms);
  for (const auto& [name, values] : mine.parameters) EXPECT_EQ(values, expected.parameters.at(name)) << name;
}

void compare(transport::World& world, const std::string& schedule, int chunks, int replicas, int reduce_every,
             bool sharded = false) {
  SCOPED_TRACE(fmt::format("{}, {} replicas, rank {} of {}", schedule, replicas, world.rank(), world.size()));
  const int micro_batches = 2 * world.size();
  Job flat = make_job(tiny_gpt2(), 1, "1f1b", 1, micro_batches, replicas);
  flat.request.parallel.reduce_every = reduce_every;
  const Result expected = train(flat);
  Job job = make_job(tiny_gpt2(), world.size() / replicas, schedule, chunks, micro_batches, replicas);
  job.request.parallel.reduce_every = reduce_every;
  job.request.parallel.sharded_optimizer = sharded;
  run_rank(job, world, [&](runtime::PipelineEngine& engine, transport::World&) {
    expect_part_of(train_rank(job, engine), expected);
    std::vector<HostBatch> batches = batches_of(job, 0, engine.place().replica);
    const std::vector<model::SideBand> bands = bands_of(batches);
    EXPECT_GT(engine.evaluate(bands), 0);
  });
}

// Two copies of the weights.
void compare_copies(transport::World& world, const std::string& schedule, int replicas, bool sharded) {
  SCOPED_TRACE(fmt::format("{}, {} replicas, rank {} of {}", schedule, replicas, world.rank(), world.size()));
  const int pipeline = world.size() / replicas;
  Job job = make_job(tiny_gpt2(), pipeline, schedule, 1, 2 * pipeline, replicas);
  job.request.parallel.sharded_optimizer = sharded;
  const Result expected = train(replicas_for_copies(job));
  run_rank(job, world, [&](runtime::PipelineEngine& engine, transport::World&) {
    expect_part_of(train_rank(job, engine), expected);
  });
}

// Two versions of the weights, and steps that overlap.
void compare_delayed(transport::World& world, int replicas, bool sharded) {
  SCOPED_TRACE(fmt::format("2bw, {} replicas, rank {} of {}", replicas, world.rank(), world.size()));
  const int pipeline = world.size() / replicas;
  Job job = make_job(tiny_gpt2(), pipeline, "2bw", 1, 2 * pipeline - 1, replicas);
  job.request.parallel.sharded_optimizer = sharded;
  job.steps = 6;
  const Result expected = train_delayed(job);
  run_rank(job, world, [&](runtime::PipelineEngine& engine, transport::World&) {
    expect_part_of(overlapping({3})(job, engine), expected);
  });
}

}  // namespace
}  // namespace penstock::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    const auto world = penstock::transport::make_mpi_world({.synchronous_sends = true});
    for (const auto& [schedule, chunks] :
         {std::pair("1f1b", 1), std::pair("zbv", 2), std::pair("interleaved", 2)})
      penstock::testing::compare(*world, schedule, chunks, 1, 0);
    penstock::testing::compare_delayed(*world, 1, false);
    if (world->size() % 2 == 0) {
      for (const bool sharded : {false, true}) penstock::testing::compare_delayed(*world, 2, sharded);
      for (const int reduce_every : {0, 1, 3})
        penstock::testing::compare(*world, "zb-h1", 1, 2, reduce_every);
      for (const int reduce_every : {0, 3})
        penstock::testing::compare(*world, "1f1b", 1, 2, reduce_every, true);
      for (const std::string& schedule : penstock::testing::two_copy_schedules()) {
        penstock::testing::compare_copies(*world, schedule, 1, false);
        penstock::testing::compare_copies(*world, schedule, 1, true);
        if (world->size() % 4 == 0) penstock::testing::compare_copies(*world, schedule, 2, true);
      }
    }
    std::vector<int64_t> failed{::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0};
    world->all_reduce(failed, penstock::transport::Reduction::maximum);
    return static_cast<int>(failed[0]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
