// Contract C1: losses, gradient norms and parameters after three steps are the same bits for every number of
// ranks, schedule, partition, recompute mode and transport; with several replicas, the same as those replicas
// without a pipeline. (Replicas change the order of sums, so that another D gives other bits.)
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

struct Kind {
  std::string schedule;
  int chunks = 1;
  int slack = 0;
};

std::vector<Kind> kinds() {
  return {{"gpipe"}, {"1f1b"},   {"1f1b", 1, 2}, {"interleaved", 2}, {"bfs", 2},       {"zb-h1"},
          {"zb-h2"}, {"zbv", 2}, {"v-half", 2},  {"v-min", 2},       {"dualpipev", 2}, {"hanayo", 2}};
}

class Schedules : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  ModelSection model() const { return std::get<0>(GetParam()) == 0 ? tiny_gpt2() : tiny_llama(); }
  Kind kind() const { return kinds()[static_cast<size_t>(std::get<1>(GetParam()))]; }
};

TEST_P(Schedules, SameBitsAsOneRank) {
  const auto job_of = [&](int pipeline, int micro_batches, int replicas) {
    Job job = make_job(model(), pipeline, kind().schedule, kind().chunks, micro_batches, replicas);
    job.request.parallel.warmup_slack = kind().slack;
    return job;
  };
  int ran = 0;
  for (const int micro_batches : {3, 8}) {
    const Result expected = train_locally(job_of(1, micro_batches, 1));
    for (const int pipeline : {1, 2, 3, 4}) {
      SCOPED_TRACE(fmt::format("P = {}, M = {}", pipeline, micro_batches));
      const Job job = job_of(pipeline, micro_batches, 1);
      try {
        runtime::plan_pipeline(job.request);
      } catch (const schedule::ScheduleError&) {
        continue;  // the definition asks for other micro-batches
      }
      ++ran;
      expect_same(train(job), expected);
    }
  }
  EXPECT_GE(ran, 4);
}

INSTANTIATE_TEST_SUITE_P(All, Schedules, ::testing::Combine(::testing::Range(0, 2), ::testing::Range(0, 12)),
                         [](const auto& test) {
                           const Kind kind = kinds()[static_cast<size_t>(std::get<1>(test.param))];
                           std::string name = std::get<0>(test.param) == 0 ? "gpt2_" : "llama_";
                           for (const char letter : kind.schedule) name += letter == '-' ? '_' : letter;
                           return name + (kind.slack > 0 ? "_slack" : "");
                         });

TEST(Invariance, RecomputeModesPrecisionsAndTies) {
  for (const bool tied : {false, true}) {
    for (const DType compute : {DType::fp32, DType::bf16, DType::fp16}) {
      ModelSection model = tied ? tiny_llama() : tiny_gpt2();
      model.tie_embeddings = tied;
      Job job = make_job(model, 1, "1f1b", 1, 5);
      job.request.common.compute = compute;
      if (compute == DType::fp16) job.loss_scale = 1024;
      const Result expected = train_locally(job);
      for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full}) {
        for (const auto& [schedule, chunks] :
             {std::pair("1f1b", 1), std::pair("zb-h1", 1), std::pair("zbv", 2)}) {
          SCOPED_TRACE(fmt::format("{}, {}, recompute {}, {}", tied ? "tied" : "untied", name_of(compute),
                                   static_cast<int>(mode), schedule));
          job.request.parallel.pipeline = 3;
          job.request.parallel.schedule = schedule;
          job.request.parallel.chunks = chunks;
          job.request.recompute.mode = mode;
          expect_same(train(job), expected);
        }
      }
    }
  }
}

TEST(Invariance, WhereTheModelIsCut) {
  Job job = make_job(tiny_gpt2(), 1, "1f1b", 1, 2);
  const Result expected = train_locally(job);
  job.request.parallel.partition = PartitionMethod::units;
  const std::vector<std::vector<int64_t>> cuts{{7, 3},    {1, 9},    {9, 1},
                                               {2, 5, 3}, {1, 8, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
  for (const std::vector<int64_t>& cut : cuts) {
    SCOPED_TRACE(fmt::format("{} stages, the first of {} units", cut.size(), cut.front()));
    job.request.parallel.pipeline = static_cast<int64_t>(cut.size());
    job.request.parallel.partition_units = cut;
    expect_same(train(job), expected);
  }
  for (const PartitionMethod method :
       {PartitionMethod::parameters, PartitionMethod::flops, PartitionMethod::measured}) {
    job.request.parallel.pipeline = 3;
    job.request.parallel.partition = method;
    expect_same(train(job), expected);
  }
}

TEST(Invariance, ThreadsStreamsAndBuffering) {
  for (const ModelSection& model : {tiny_gpt2(), tiny_llama()}) {
    for (const auto& [schedule, chunks] : {std::pair("1f1b", 1), std::pair("interleaved", 2),
                                           std::pair("v-min", 2), std::pair("dualpipev", 2)}) {
      SCOPED_TRACE(fmt::format("{} {}", static_cast<int>(model.family), schedule));
      Job job = make_job(model, 2, schedule, chunks, 6);
      const Result expected = train_locally(job);
      job.transport.buffered = true;
      expect_same(train(job), expected);
      job.mode = StreamMode::shuffled;
      expect_same(train(job), expected);
      job.transport.buffered = false;
      expect_same(train(job), expected);
      job.threads = 2;
      job.mode = StreamMode::queued;
      expect_same(train(job), expected);
    }
  }
}

TEST(Invariance, Replicas) {
  for (const ModelSection& model : {tiny_gpt2(), tiny_llama()}) {
    for (const int replicas : {2, 3}) {
      Job alone = make_job(model, 1, "1f1b", 1, 4, replicas);
      const Result expected = train(alone);
      for (const Kind& kind : {Kind{"1f1b"}, Kind{"zb-h1"}, Kind{"interleaved", 2}, Kind{"zbv", 2}}) {
        SCOPED_TRACE(fmt::format("D = {}, {}", replicas, kind.schedule));
        Job job = make_job(model, replicas == 2 ? 3 : 2, kind.schedule, kind.chunks, 4, replicas);
        expect_same(train(job), expected);
        job.request.parallel.order = RankOrder::data_first;
        job.request.parallel.bucket_mib = 64;  // an element's sum does not depend on its bucket
        job.mode = StreamMode::shuffled;
        expect_same(train(job), expected);
      }
    }
  }
}

TEST(Invariance, ReplicasWithNarrowWire) {
  Job job = make_job(tiny_gpt2(), 1, "1f1b", 1, 3, 2);
  const Result wide = train(job);
  for (const auto& [wire, error] : {std::pair(DType::bf16, 0.01), std::pair(DType::fp16, 0.001)}) {
    SCOPED_TRACE(name_of(wire));
    job = make_job(tiny_gpt2(), 1, "1f1b", 1, 3, 2);
    job.loss_scale = 4096;
    job.request.gradient_wire = wire;
    const Result expected = train(job);
    EXPECT_NE(expected.norms, wide.norms);
    EXPECT_NEAR(expected.norms[0], wide.norms[0], error * wide.norms[0]);
    job = make_job(tiny_gpt2(), 2, "zbv", 2, 3, 2);
    job.loss_scale = 4096;
    job.request.gradient_wire = wire;
    job.request.parallel.bucket_mib = 0.0005;
    expect_same(train(job), expected);
  }
}

TEST(Invariance, LibrarySumsAreTheOrderedOnesForTwoReplicas) {
  Job job = make_job(tiny_llama(), 2, "1f1b", 1, 3, 2);
  const Result expected = train(job);
  job.request.parallel.gradient_sum = GradientSum::library;
  expect_same(train(job), expected);
}

TEST(Invariance, ReplicasTrainOnEverybodysData) {
  // Two replicas with half of the micro-batches each: the same gradient as one with all of them, but for the
  // order of its sum.
  Job whole = make_job(tiny_llama(), 1, "1f1b", 1, 4);
  whole.steps = 1;
  Job halves = make_job(tiny_llama(), 2, "1f1b", 1, 2, 2);
  halves.steps = 1;
  const Result expected = train_locally(whole);
  const Result found = train(halves);
  EXPECT_NEAR(found.losses[0], expected.losses[0], 1e-6 * expected.losses[0]);
  EXPECT_NEAR(found.norms[0], expected.norms[0], 1e-5 * expected.norms[0]);
}

}  // namespace
}  // namespace penstock::testing
