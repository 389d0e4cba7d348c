// A sharded optimizer (ZeRO-1) trains what every replica with a whole one does, bit by bit, in less memory.
#include <mutex>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/math/reduce.h"
#include "model/memory_plan.h"
#include "model/unit_id.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

Job job_of(bool llama, bool tied, int pipeline, int replicas) {
  Job job = make_job(model_of_blocks(llama, tied), pipeline, pipeline > 1 ? "zb-h1" : "1f1b", 1, 4, replicas);
  job.request.parallel.bucket_mib = 0.02;
  return job;
}

Job sharded(Job job) {
  job.request.parallel.sharded_optimizer = true;
  return job;
}

TEST(Shards, AreWholeBlocksAndEverythingOnce) {
  for (const bool llama : {false, true}) {
    const ModelSection model = model_of_blocks(llama, true);
    for (int unit = 0; unit < model::unit_count(model); ++unit) {
      const auto specs = model::unit_parameters(model, model::unit_at(model, unit));
      for (const int members : {1, 2, 3, 5, 16}) {
        std::vector<int64_t> reached(specs.size(), 0);
        int64_t all = 0;
        int64_t most = 0;
        for (int member = 0; member < members; ++member) {
          const auto slices = shard_slices(specs, {members, member});
          int64_t owned = 0;
          for (size_t i = 0; i < specs.size(); ++i) {
            owned += slices[i].elements();
            if (slices[i].elements() == 0) continue;
            EXPECT_EQ(slices[i].begin, reached[i]);
            EXPECT_EQ(slices[i].begin % math::norm_block, 0);
            reached[i] = slices[i].end;
          }
          all += owned;
          most = std::max(most, owned);
        }
        for (size_t i = 0; i < specs.size(); ++i) EXPECT_EQ(reached[i], specs[i].slice.end) << specs[i].name;
        // No more than the even share of each run and a block.
        const auto runs = static_cast<int64_t>(model::shard_runs(specs).size());
        EXPECT_LE(most, all / members + runs * math::norm_block);
      }
    }
  }
}

TEST(Shards, OfATiedWeightAreTheSameAtBothItsOwners) {
  const ModelSection model = model_of_blocks(false, true);
  const auto first = model::unit_parameters(model, model::unit_at(model, 0));
  const auto last = model::unit_parameters(model, model::unit_at(model, model::unit_count(model) - 1));
  for (int member = 0; member < 3; ++member)
    EXPECT_EQ(shard_slices(first, {3, member}).front(), shard_slices(last, {3, member}).back());
}

TEST(ShardedOptimizer, SameBitsWhereParametersAreCut) {
  for (const bool llama : {false, true}) {
    for (const auto& [pipeline, replicas] : {std::pair(1, 2), {2, 2}, {2, 3}, {1, 4}}) {
      for (const DType compute : {DType::fp32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{}, P = {}, D = {}, {}", llama ? "llama" : "gpt2", pipeline, replicas,
                                 name_of(compute)));
        Job job = job_of(llama, !llama || pipeline == 1, pipeline, replicas);
        job.request.common.compute = compute;
        expect_same(train(sharded(job)), train(job));
      }
    }
  }
}

TEST(ShardedOptimizer, SameBitsWithEveryKindOfSum) {
  for (const GradientSum sum : {GradientSum::ordered, GradientSum::library}) {
    for (const DType wire : {DType::fp32, DType::bf16}) {
      for (const int every : {0, 3}) {
        SCOPED_TRACE(fmt::format("{}, {}, every {}", sum == GradientSum::ordered ? "ordered" : "library",
                                 name_of(wire), every));
        Job job = job_of(false, true, 2, 3);
        job.request.parallel.gradient_sum = sum;
        job.request.gradient_wire = wire;
        job.request.parallel.reduce_every = every;
        expect_same(train(sharded(job)), train(job));
      }
    }
  }
}

// Losses of evaluations between steps, and logits; NaN at first: nobody has evaluated.
std::vector<double> evaluations(Job job) {
  std::mutex mutex;
  std::vector<double> losses;
  job.request.logits = true;
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
    std::vector<double> mine;
    Result result;
    for (int step = 0; step < 3; ++step) {
      std::vector<HostBatch> batches = batches_of(job, 50 + step, 0);
      const auto bands = bands_of(batches);
      if (step != 1) mine.push_back(engine.evaluate(bands));
      train_step(job, engine, step, result);
      mine.push_back(engine.evaluate(bands));
      if (step == 1) mine.push_back(engine.evaluate(bands));
      mine.push_back(engine.logits(bands.front(), 3)[5]);
    }
    const std::lock_guard lock(mutex);
    if (losses.empty()) losses = mine;
    EXPECT_EQ(losses, mine) << "rank " << world.rank();
  });
  return losses;
}

TEST(ShardedOptimizer, EvaluationsBetweenStepsSeeWhatOthersUpdated) {
  for (const DType compute : {DType::fp32, DType::bf16}) {
    Job job = job_of(false, true, 2, 2);
    job.request.common.compute = compute;
    EXPECT_EQ(evaluations(sharded(job)), evaluations(job));
  }
  Job copies = make_job(model_of_blocks(false, true), 2, "dualpipe", 1, 4, 1);
  EXPECT_EQ(evaluations(sharded(copies)), evaluations(copies));
}

// What these tests would say if a step forgot to gather.
TEST(ShardedOptimizer, WithoutTheGatherTheRunIsAnother) {
  Job job = job_of(false, true, 1, 2);
  const Result right = train(job);
  std::mutex mutex;
  std::vector<double> losses;
  run_ranks(sharded(job), [&](runtime::PipelineEngine& engine, transport::World&) {
    Result mine;
    for (int step = 0; step < job.steps; ++step) {
      train_step(job, engine, step, mine);
      engine.rank().parameters().set_gathered(true);
    }
    const std::lock_guard lock(mutex);
    losses = mine.losses;
  });
  EXPECT_EQ(losses[0], right.losses[0]);
  EXPECT_NE(losses[1], right.losses[1]);
}

size_t bytes_of(const model::MemoryPlan& plan, ArenaTag tag, std::string_view ending) {
  size_t bytes = 0;
  for (const model::PlannedAllocation& piece : plan.allocations)
    if (piece.tag == tag && piece.name.ends_with(ending)) bytes += piece.bytes;
  return bytes;
}

TEST(ShardedOptimizer, TakesItsShareOfMomentsAndMasters) {
  Job job = job_of(true, false, 1, 4);
  job.request.common.compute = DType::bf16;
  std::mutex mutex;
  std::vector<model::MemoryPlan> whole;
  std::vector<model::MemoryPlan> shares;
  const auto plans = [&](const Job& of, std::vector<model::MemoryPlan>& into) {
    run_ranks(of, [&](runtime::PipelineEngine& engine, transport::World&) {
      EXPECT_EQ(engine.rank().memory().device().arena(ArenaTag::optimizer).used(),
                engine.rank().memory().plan().bytes(ArenaTag::optimizer));
      const std::lock_guard lock(mutex);
      into.push_back(engine.rank().memory().plan());
    });
  };
  plans(job, whole);
  plans(sharded(job), shares);
  ASSERT_EQ(shares.size(), 4U);
  for (const model::MemoryPlan& plan : shares) {
    EXPECT_EQ(plan.table(), shares.front().table());
    for (const char* state : {"moment1", "moment2"}) {
      const size_t all = bytes_of(whole.front(), ArenaTag::optimizer, state);
      // An even share, and in these small units up to a block more in each run.
      EXPECT_LE(bytes_of(plan, ArenaTag::optimizer, state), all * 2 / 5);
      EXPECT_GE(bytes_of(plan, ArenaTag::optimizer, state), all / 4);
    }
    EXPECT_LE(bytes_of(plan, ArenaTag::parameters, "master"),
              bytes_of(whole.front(), ArenaTag::parameters, "master") * 2 / 5);
    EXPECT_EQ(bytes_of(plan, ArenaTag::parameters, "compute"),
              bytes_of(whole.front(), ArenaTag::parameters, "compute"));
  }
}

}  // namespace
}  // namespace penstock::testing
