// Units change their ranks between two steps, and no bit of the run changes (contract C1).
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

// How a pipeline is arranged for the next steps.
struct Arranged {
  OneCopySchedule schedule;
  std::vector<int64_t> units;  ///< of each stage
  RecomputeMode recompute = RecomputeMode::none;
  bool sharded = false;
};

Job arranged(Job job, const Arranged& to) {
  ParallelSection& parallel = job.request.parallel;
  parallel.schedule = to.schedule.name;
  parallel.chunks = to.schedule.chunks;
  parallel.warmup_slack = to.schedule.slack;
  parallel.partition = PartitionMethod::units;
  parallel.partition_units = to.units;
  job.request.recompute.mode = to.recompute;
  parallel.sharded_optimizer = to.sharded;
  return job;
}

// A step in each arrangement after the other, on the ranks of one device each.
Result train_arranged(const Job& job, const std::vector<Arranged>& arrangements) {
  std::mutex mutex;
  Result result;
  const auto ranks = static_cast<int>(job.request.parallel.pipeline * job.request.parallel.data);
  transport::run_inproc(ranks, job.transport, [&](transport::World& world) {
    DeviceOptions options;
    options.rank = world.rank();
    options.strict_events = true;
    const auto device = cpu::make_cpu_device(options);
    math::Math math = cpu::make_math(*device);
    std::unique_ptr<runtime::PipelineEngine> engine;
    Result mine;
    for (size_t step = 0; step < arrangements.size(); ++step) {
      runtime::PipelinePlan plan = plan_pipeline(arranged(job, arrangements[step]).request);
      if (!engine) {
        engine = std::make_unique<runtime::PipelineEngine>(*device, math, world, plan);
        engine->rank().initialise(engine->stream());
      } else {
        runtime::Communicators communicators = engine->communicators_beside(plan);
        device->set_arenas_aside();
        auto next = std::make_unique<runtime::PipelineEngine>(*device, math, world, plan, communicators);
        next->take_over(*engine);
        engine = std::move(next);
      }
      train_step(job, *engine, static_cast<int>(step), mine);
    }
    engine->gather_parameters();
    engine->stream().synchronize();
    const std::lock_guard lock(mutex);
    if (result.losses.empty()) result = mine;
    EXPECT_EQ(result.losses, mine.losses) << "rank " << world.rank();
    EXPECT_EQ(result.norms, mine.norms) << "rank " << world.rank();
    collect(engine->rank(), result.parameters);
  });
  return result;
}

// 4 layers: 10 units.
TEST(TakeOver, UnitsMoveBetweenFourRanks) {
  Job job = make_job(tiny_gpt2(), 4, "1f1b");
  const Result moved = train_arranged(job, {{{"1f1b"}, {3, 2, 2, 3}},
                                            {{"1f1b"}, {1, 2, 6, 1}},
                                            {{"zb-h1"}, {5, 1, 1, 3}},
                                            {{"1f1b", 1, 1}, {3, 2, 2, 3}, RecomputeMode::full}});
  job.steps = 4;
  expect_same(train_locally(job), moved);
}

// The tied weight's copies come together on one rank with the V schedules, and part again.
TEST(TakeOver, SchedulesChangeAndTiedWeightsMeet) {
  Job job = make_job(tiny_gpt2(), 2, "1f1b");
  const Result moved = train_arranged(job, {{{"1f1b"}, {5, 5}},
                                            {{"zbv", 2}, {2, 3, 3, 2}, RecomputeMode::selective},
                                            {{"interleaved", 2}, {3, 2, 2, 3}},
                                            {{"zbv", 2}, {4, 1, 1, 4}},
                                            {{"gpipe"}, {2, 8}}});
  job.steps = 5;
  expect_same(train_locally(job), moved);
}

TEST(TakeOver, ReplicasMoveTheSameUnits) {
  Job job = make_job(tiny_llama(), 2, "1f1b", 1, 4, 2);
  const Result moved =
      train_arranged(job, {{{"1f1b"}, {5, 5}}, {{"zbv", 2}, {2, 3, 3, 2}}, {{"1f1b"}, {7, 3}}});
  job.steps = 3;
  expect_same(train(job), moved);
}

// Between optimizers that are sharded, from one that is to one that is not, and back.
TEST(TakeOver, ShardsMoveWithTheirUnits) {
  for (const DType compute : {DType::fp32, DType::bf16}) {
    for (const int replicas : {2, 3}) {
      Job job = make_job(tiny_gpt2(), 2, "1f1b", 1, 4, replicas);
      job.request.common.compute = compute;
      const RecomputeMode none = RecomputeMode::none;
      const Result moved = train_arranged(job, {{{"1f1b"}, {5, 5}, none, true},
                                                {{"zbv", 2}, {2, 3, 3, 2}, none, true},
                                                {{"1f1b"}, {7, 3}, none, false},
                                                {{"interleaved", 2}, {3, 2, 2, 3}, none, true},
                                                {{"1f1b"}, {5, 5}, none, true}});
      job.steps = 5;
      expect_same(train(job), moved);
    }
  }
}

TEST(TakeOver, ComputeCopiesFollowTheirMasters) {
  Job job = make_job(tiny_gpt2(), 2, "1f1b");
  job.request.common.compute = DType::bf16;
  const Result moved =
      train_arranged(job, {{{"1f1b"}, {5, 5}}, {{"1f1b"}, {2, 8}}, {{"zbv", 2}, {2, 3, 3, 2}}});
  job.steps = 3;
  expect_same(train(job), moved);
}

// What cannot be built beside the running engine leaves it as it is.
TEST(TakeOver, AnEngineThatIsDroppedLeavesTheOtherRunning) {
  Job job = make_job(tiny_gpt2(), 2, "1f1b");
  job.steps = 2;
  const Result expected = train(job);
  std::mutex mutex;
  Result result;
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
    Device& device = engine.rank().memory().device();
    math::Math math = cpu::make_math(device);
    Result mine;
    train_step(job, engine, 0, mine);
    const runtime::PipelinePlan plan = plan_pipeline(arranged(job, {{"zbv", 2}, {4, 1, 1, 4}}).request);
    {
      runtime::Communicators communicators = engine.communicators_beside(plan);
      device.set_arenas_aside();
      runtime::PipelineEngine next(device, math, world, plan, communicators);
    }
    device.bring_arenas_back();
    EXPECT_FALSE(world.stopped());
    train_step(job, engine, 1, mine);
    collect(engine.rank(), mine.parameters);
    const std::lock_guard lock(mutex);
    result.losses = mine.losses;
    result.norms = mine.norms;
    collect(engine.rank(), result.parameters);
  });
  expect_same(expected, result);
}

}  // namespace
}  // namespace penstock::testing
