// Evaluation, logits, the search for what is not finite, files of schedules, stamps, refusals.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <mutex>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"
#include "kernels/device/error.h"
#include "parallel/planner/cut.h"
#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/csv.h"
#include "tests/parallel/runtime/local_engine.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

using ::testing::HasSubstr;

/// One rank that holds the whole model, to compare with.
class Alone {
 public:
  explicit Alone(const Job& job) : device_(cpu::make_cpu_device({})), math_(cpu::make_math(*device_)) {
    model::RankConfig config = job.request.common;
    config.stages = {model::whole_model(config.model, RecomputeMode::none)};
    engine_ = std::make_unique<runtime::LocalEngine>(*device_, math_, config);
    engine_->rank().initialise(engine_->stream());
  }
  runtime::LocalEngine& operator*() { return *engine_; }
  runtime::LocalEngine* operator->() { return engine_.get(); }

 private:
  std::unique_ptr<Device> device_;
  math::Math math_;
  std::unique_ptr<runtime::LocalEngine> engine_;
};

std::vector<Job> layouts() {
  std::vector<Job> jobs;
  for (const auto& [schedule, ranks, chunks] :
       {std::tuple("1f1b", 1, 1), std::tuple("1f1b", 4, 1), std::tuple("interleaved", 2, 2),
        std::tuple("zbv", 3, 2), std::tuple("hanayo", 2, 2), std::tuple("dualpipe", 2, 1),
        std::tuple("chimera", 4, 1)})
    jobs.push_back(make_job(tiny_gpt2(), ranks, schedule, chunks, 4));
  return jobs;
}

TEST(Engine, EvaluatesAnyNumberOfMicroBatchesInARow) {
  for (const Job& job : layouts()) {
    SCOPED_TRACE(fmt::format("{}, P = {}", job.request.parallel.schedule, job.request.parallel.pipeline));
    Alone alone(job);
    run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
      static std::mutex mutex;
      std::vector<HostBatch> batches(11);
      for (size_t m = 0; m < batches.size(); ++m)
        batches[m] = random_batch(job.request.common.model, 2, 100 + 2 * static_cast<int64_t>(m));
      const std::vector<model::SideBand> bands = bands_of(batches);
      const std::span<const model::SideBand> all(bands);
      for (const size_t count : {1U, 11U, 3U, 4U, 1U, 5U}) {
        const double found = engine.evaluate(all.first(count));
        const std::lock_guard lock(mutex);
        EXPECT_EQ(found, alone->evaluate(all.first(count))) << count << " on rank " << world.rank();
      }
      // A step between evaluations is what it would have been without them.
      engine.start_step({0, 1e-2, 1}, all.first(4));
      const double loss = engine.finish_step().loss_sum;
      EXPECT_GT(loss, 0);
      EXPECT_NE(engine.evaluate(all.first(4)), 0);
      engine.start_step({1, 1e-2, 1}, all.first(4));
      EXPECT_NE(engine.finish_step().loss_sum, loss);
    });
  }
}

TEST(Engine, EvaluationAddsReplicas) {
  const Job job = make_job(tiny_llama(), 2, "1f1b", 1, 3, 2);
  Alone alone(job);
  std::vector<double> parts;
  for (int replica = 0; replica < 2; ++replica) {
    std::vector<HostBatch> batches = batches_of(job, 0, replica);
    const std::vector<model::SideBand> bands = bands_of(batches);
    // Replicas may have different numbers of micro-batches.
    parts.push_back(alone->evaluate(std::span<const model::SideBand>(bands).first(replica == 0 ? 3 : 1)));
  }
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
    std::vector<HostBatch> batches = batches_of(job, 0, engine.place().replica);
    const std::vector<model::SideBand> bands = bands_of(batches);
    const size_t count = engine.place().replica == 0 ? 3 : 1;
    EXPECT_EQ(engine.evaluate(std::span<const model::SideBand>(bands).first(count)), parts[0] + parts[1]);
  });
}

TEST(Engine, ReplicasAreSummedInTheirOrder) {
  Job job = make_job(tiny_llama(), 1, "1f1b", 1, 2, 3);
  std::vector<std::vector<float>> parts;
  for (int replica = 0; replica < 3; ++replica) {
    Alone alone(job);
    std::vector<HostBatch> batches = batches_of(job, 0, replica);
    const std::vector<model::SideBand> bands = bands_of(batches);
    alone->start_step({0, 1e-2, 60}, bands);
    alone->finish_step();
    parts.push_back(gradients_of(alone->rank()));
  }
  std::vector<float> expected;
  size_t other_order = 0;
  for (size_t i = 0; i < parts[0].size(); ++i) {
    expected.push_back((parts[0][i] + parts[1][i]) + parts[2][i]);
    other_order += expected.back() != (parts[2][i] + parts[1][i]) + parts[0][i] ? 1 : 0;
  }
  EXPECT_GT(other_order, expected.size() / 20) << "this data does not tell orders apart";
  for (const double bucket_mib : {64.0, 0.001}) {
    job.request.parallel.bucket_mib = bucket_mib;
    run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
      std::vector<HostBatch> batches = batches_of(job, 0, engine.place().replica);
      const std::vector<model::SideBand> bands = bands_of(batches);
      engine.start_step({0, 1e-2, 60}, bands);
      engine.finish_step();
      EXPECT_EQ(gradients_of(engine.rank()), expected) << "rank " << world.rank();
    });
  }
}

TEST(Engine, LogitsOnEveryRank) {
  for (Job job : layouts()) {
    SCOPED_TRACE(fmt::format("{}, P = {}", job.request.parallel.schedule, job.request.parallel.pipeline));
    Alone alone(job);
    HostBatch batch = random_batch(job.request.common.model, 2, 9);
    const auto expected = alone->logits(batch.band(), 3);
    const std::vector<float> copy(expected.begin(), expected.end());
    job.request.logits = true;
    run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
      HostBatch mine = batch;
      for (int twice = 0; twice < 2; ++twice) {
        const auto found = engine.logits(mine.band(), 3);
        EXPECT_EQ(std::vector<float>(found.begin(), found.end()), copy);
      }
    });
  }
}

TEST(Engine, LogitsMustBePlanned) {
  run_ranks(make_job(tiny_llama(), 1, "1f1b"), [](runtime::PipelineEngine& engine, transport::World&) {
    HostBatch batch = random_batch(tiny_llama(), 2, 9);
    EXPECT_THROW(engine.logits(batch.band(), 0), UsageError);
  });
}

TEST(Engine, NamesTheFirstUnitThatIsNotFinite) {
  struct Case {
    int replicas;
    std::string parameter;
    float value;
    std::string unit;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Case> cases{{1, "layers.2.mlp.down.weight", nan, "mlp_2"},
                                {2, "layers.0.attention.qkv.weight", nan, "attention_0"},
                                {1, "head.norm.weight", 1e38F, "head"}};
  const auto put = [](model::RankModel& rank, const Case& test) {
    bool there = false;
    for (const model::Parameter& parameter : rank.parameters().parameters()) {
      if (parameter.spec.name != test.parameter) continue;
      parameter.master.as<float>()[3] = test.value;
      there = true;
    }
    return there;
  };
  for (const Case& test : cases) {
    for (Job job : layouts()) {
      job.request.parallel.data = test.replicas;
      SCOPED_TRACE(fmt::format("{}: {}, P = {}", test.parameter, job.request.parallel.schedule,
                               job.request.parallel.pipeline));
      Alone alone(job);
      ASSERT_TRUE(put(alone->rank(), test));
      std::vector<HostBatch> first = batches_of(job, 0, 0);
      const std::vector<model::SideBand> first_bands = bands_of(first);
      alone->start_step({0, 1e-2, 1}, first_bands);
      EXPECT_FALSE(alone->finish_step().applied);
      const auto expected = alone->find_nonfinite(first_bands);
      ASSERT_TRUE(expected);
      run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
        std::vector<HostBatch> batches = batches_of(job, 0, engine.place().replica);
        const std::vector<model::SideBand> bands = bands_of(batches);
        EXPECT_FALSE(engine.find_nonfinite(bands));
        put(engine.rank(), test);
        engine.start_step({0, 1e-2, 1}, bands);
        EXPECT_FALSE(engine.finish_step().applied);
        const auto found = engine.find_nonfinite(bands);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->where.unit_name, test.unit);
        EXPECT_EQ(found->where.unit, expected->where.unit);
        EXPECT_EQ(found->where.what, expected->where.what);
        EXPECT_EQ(found->where.count, expected->where.count);
        EXPECT_EQ(found->micro_batch, expected->micro_batch);
        EXPECT_EQ(found->replica, 0);
      });
    }
  }
}

TEST(Engine, RunsAScheduleFromAFile) {
  schedule::ScheduleOptions options;
  options.ranks = 2;
  options.micro_batches = 4;
  options.chunks = 2;
  const std::string path = ::testing::TempDir() + "penstock_runtime_schedule.csv";
  std::ofstream(path) << write_csv(schedule::generate("zbv", options));
  Job job = make_job(tiny_llama(), 2, "file:" + path, 2, 4);
  expect_same(train(job), train_locally(job));
  std::remove(path.c_str());
}

TEST(Engine, StampsSayWhatRanWhen) {
  const Job job = make_job(tiny_gpt2(), 2, "1f1b", 1, 4, 2);
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
    std::vector<HostBatch> batches = batches_of(job, 0, engine.place().replica);
    const std::vector<model::SideBand> bands = bands_of(batches);
    for (uint64_t step = 0; step < 6; ++step) {
      engine.start_step({step, 1e-2, 1}, bands);
      engine.finish_step();
    }
    const auto& program = engine.plan().training.ranks[static_cast<size_t>(engine.place().pipeline)];
    double previous_end = 0;
    for (uint64_t step = 2; step < 6; ++step) {
      const auto stamps = engine.stamps(step);
      ASSERT_EQ(stamps.size(), program.instructions.size());
      std::array<double, runtime::lane_count> free{};
      double last = 0;
      for (size_t i = 0; i < stamps.size(); ++i) {
        EXPECT_EQ(to_string(*stamps[i].instruction), to_string(program.instructions[i]));
        double& lane_free = free[static_cast<size_t>(stamps[i].lane)];
        EXPECT_GE(stamps[i].start, lane_free);
        EXPECT_GE(stamps[i].start, previous_end);
        EXPECT_GE(stamps[i].end, stamps[i].start);
        EXPECT_GE(stamps[i].end, stamps[i].enqueued);
        lane_free = stamps[i].end;
        last = std::max(last, stamps[i].end);
      }
      previous_end = last;
    }
  });
}

template <class Error>
std::string refusal(const Job& job) {
  try {
    runtime::plan_pipeline(job.request);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Engine, RefusesWhatItCannotRun) {
  EXPECT_THAT(refusal<planner::PartitionError>(make_job(tiny_gpt2(), 6, "zbv", 2, 12)),
              HasSubstr("12 stages of 10 units"));
  Job listed = make_job(tiny_gpt2(), 2, "1f1b");
  listed.request.parallel.partition = PartitionMethod::units;
  listed.request.parallel.partition_units = {4, 5};
  EXPECT_THAT(refusal<planner::PartitionError>(listed), HasSubstr("[4, 5]"));
  listed.request.parallel.partition_units = {10, 0};
  EXPECT_THAT(refusal<planner::PartitionError>(listed), HasSubstr("the model has 10 units"));
  Job windows = make_job(tiny_gpt2(), 4, "dualpipe", 1, 8);
  windows.request.parallel.reduce_every = 2;
  EXPECT_THAT(refusal<UsageError>(windows), HasSubstr("two copies"));
  run_ranks(make_job(tiny_gpt2(), 1, "1f1b", 1, 4), [](runtime::PipelineEngine& engine, transport::World&) {
    EXPECT_THROW(engine.start_step({}, std::vector<model::SideBand>(3)), UsageError);
  });
}

TEST(Engine, MemoryOfDeferredWorkDoesNotGrowWithMicroBatches) {
  for (const auto& [schedule, chunks] : {std::pair("1f1b", 1), std::pair("zb-h1", 1), std::pair("zbv", 2)}) {
    const auto few = runtime::plan_pipeline(make_job(tiny_gpt2(), 4, schedule, chunks, 12).request);
    const auto many = runtime::plan_pipeline(make_job(tiny_gpt2(), 4, schedule, chunks, 48).request);
    for (size_t rank = 0; rank < 4; ++rank) {
      const model::RankConfig& a = few.ranks[rank];
      const model::RankConfig& b = many.ranks[rank];
      EXPECT_EQ(a.output_buffers, b.output_buffers) << schedule;
      EXPECT_EQ(a.d_input_buffers, b.d_input_buffers) << schedule;
      for (size_t stage = 0; stage < a.stages.size(); ++stage) {
        EXPECT_EQ(a.stages[stage].forward_slots, b.stages[stage].forward_slots) << schedule;
        EXPECT_EQ(a.stages[stage].kept_slots, b.stages[stage].kept_slots) << schedule;
        EXPECT_EQ(a.stages[stage].weight_slots, b.stages[stage].weight_slots) << schedule;
      }
    }
  }
}

}  // namespace
}  // namespace penstock::testing
