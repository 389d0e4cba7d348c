// parallel.reduce_every: gradients are summed over the replicas window by window. With equal D and
// reduce_every the bits are the same for every number of ranks, schedule, recompute mode, transport and
// bucket, and they are those of windows that were computed one by one and added by hand.
#include <algorithm>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

Job windowed(const ModelSection& model, int pipeline, const OneCopySchedule& kind, int micro_batches,
             int replicas, int every) {
  Job job = make_job(model, pipeline, kind, micro_batches, replicas);
  job.request.parallel.reduce_every = every;
  job.steps = 2;
  return job;
}

// The gradients of micro-batches [begin, end) of a replica's first step, alone on one rank.
std::vector<float> window_of(Job job, int replica, int begin, int end) {
  std::vector<HostBatch> batches = batches_of(job, 0, replica);
  const std::vector<model::SideBand> bands = bands_of(batches);
  job.request.parallel.pipeline = 1;
  job.request.parallel.data = 1;
  job.request.parallel.schedule = "gpipe";
  job.request.parallel.reduce_every = 0;
  job.request.common.micro_batches = end - begin;
  std::vector<float> found;
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
    engine.start_step({0, 1e-2, 100},
                      std::span(bands).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    engine.finish_step();
    found = gradients_of(engine.rank());
  });
  return found;
}

// Untied: on one rank a tied weight's gradient is the sum of two accumulators.
TEST(PartialReduction, WindowsAreSummedOverReplicasThenAdded) {
  constexpr int micro_batches = 5;
  for (const int replicas : {2, 3}) {
    for (const int every : {1, 2, 3}) {
      Job job = windowed(tiny_llama(), 1, {"zb-h1"}, micro_batches, replicas, every);
      std::vector<float> expected;
      for (int begin = 0; begin < micro_batches; begin += every) {
        const int end = std::min(begin + every, micro_batches);
        std::vector<float> sum = window_of(job, 0, begin, end);
        for (int replica = 1; replica < replicas; ++replica) {
          const std::vector<float> part = window_of(job, replica, begin, end);
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
        }
        if (expected.empty()) expected.resize(sum.size());
        for (size_t i = 0; i < sum.size(); ++i) expected[i] += sum[i];
      }
      for (const double bucket_mib : {64.0, 0.002, 0.0003}) {
        job.request.parallel.bucket_mib = bucket_mib;
        run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
          std::vector<HostBatch> batches = batches_of(job, 0, engine.place().replica);
          const std::vector<model::SideBand> bands = bands_of(batches);
          for (uint64_t twice = 0; twice < 2; ++twice) {
            engine.start_step({twice, 0, 100}, bands);  // a rate of 0: both steps have the same gradients
            engine.finish_step();
            EXPECT_EQ(gradients_of(engine.rank()), expected)
                << "D = " << replicas << ", every " << every << ", rank " << world.rank();
          }
        });
      }
    }
  }
}

class PartialReductions : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  ModelSection model() const { return std::get<0>(GetParam()) == 0 ? tiny_gpt2() : tiny_llama(); }
  OneCopySchedule kind() const { return one_copy_schedules()[static_cast<size_t>(std::get<1>(GetParam()))]; }
};

// Up to eight windows: sets are used again, and in split schedules I runs ahead of W across windows.
TEST_P(PartialReductions, SameBitsForEveryNumberOfRanks) {
  struct Windows {
    int micro_batches;
    int every;
    std::vector<int> pipelines;
  };
  int ran = 0;
  for (const Windows& test : {Windows{9, 2, {2, 3, 4}}, Windows{8, 1, {3}}, Windows{8, 3, {1, 2}}}) {
    const Result expected = train(windowed(model(), 1, {"gpipe"}, test.micro_batches, 2, test.every));
    for (const int pipeline : test.pipelines) {
      SCOPED_TRACE(fmt::format("P = {}, M = {}, every {}", pipeline, test.micro_batches, test.every));
      const Job job = windowed(model(), pipeline, kind(), test.micro_batches, 2, test.every);
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

INSTANTIATE_TEST_SUITE_P(All, PartialReductions,
                         ::testing::Combine(::testing::Range(0, 2), ::testing::Range(0, 12)),
                         [](const auto& test) {
                           const OneCopySchedule kind =
                               one_copy_schedules()[static_cast<size_t>(std::get<1>(test.param))];
                           std::string name = std::get<0>(test.param) == 0 ? "gpt2_" : "llama_";
                           for (const char letter : kind.name) name += letter == '-' ? '_' : letter;
                           return name + (kind.slack > 0 ? "_slack" : "");
                         });

TEST(PartialReduction, RecomputeModesPrecisionsAndTies) {
  for (const bool tied : {false, true}) {
    for (const DType compute : {DType::fp32, DType::bf16}) {
      ModelSection model = tied ? tiny_llama() : tiny_gpt2();
      model.tie_embeddings = tied;
      Job job = windowed(model, 1, {"1f1b"}, 5, 2, 2);
      job.request.common.compute = compute;
      const Result expected = train(job);
      for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full}) {
        for (const OneCopySchedule& kind :
             {OneCopySchedule{"1f1b"}, OneCopySchedule{"zb-h1"}, OneCopySchedule{"zbv", 2}}) {
          SCOPED_TRACE(fmt::format("{}, {}, recompute {}, {}", tied ? "tied" : "untied", name_of(compute),
                                   static_cast<int>(mode), kind.name));
          Job piped = windowed(model, 2, kind, 5, 2, 2);
          piped.request.common.compute = compute;
          piped.request.recompute.mode = mode;
          expect_same(train(piped), expected);
        }
      }
    }
  }
}

// Two wires and two ways to sum, three replicas, late streams, buffered transports, neighbours that are
// replicas.
TEST(PartialReduction, WiresSumsStreamsAndTransports) {
  for (const DType wire : {DType::fp32, DType::bf16}) {
    for (const GradientSum sum : {GradientSum::ordered, GradientSum::library}) {
      Job alone = windowed(tiny_gpt2(), 1, {"1f1b"}, 5, 3, 2);
      alone.request.gradient_wire = wire;
      alone.request.parallel.gradient_sum = sum;
      const Result expected = train(alone);
      for (const OneCopySchedule& kind : {OneCopySchedule{"zb-h1"}, OneCopySchedule{"zbv", 2}}) {
        SCOPED_TRACE(fmt::format("{}, {}, {}", name_of(wire),
                                 sum == GradientSum::ordered ? "ordered" : "library", kind.name));
        Job job = windowed(tiny_gpt2(), 2, kind, 5, 3, 2);
        job.request.gradient_wire = wire;
        job.request.parallel.gradient_sum = sum;
        job.request.parallel.bucket_mib = 0.0003;  // 128 elements: smaller than a matrix
        job.request.parallel.order = RankOrder::data_first;
        job.mode = StreamMode::shuffled;
        job.transport.buffered = kind.chunks == 2;
        expect_same(train(job), expected);
      }
    }
  }
}

TEST(PartialReduction, OneReplicaHasNothingToSum) {
  const Result expected = train(windowed(tiny_gpt2(), 1, {"1f1b"}, 4, 1, 0));
  const Job job = windowed(tiny_gpt2(), 2, {"zb-h1"}, 4, 1, 2);
  expect_same(train(job), expected);
  EXPECT_EQ(runtime::plan_pipeline(job.request).ranks[0].gradient_sets, 1);
}

TEST(PartialReduction, OneWindowIsTheWholeStep) {
  const Result expected = train(windowed(tiny_gpt2(), 1, {"1f1b"}, 4, 2, 0));
  for (const int every : {4, 5, 1 << 30}) {
    const Job job = windowed(tiny_gpt2(), 2, {"zb-h1"}, 4, 2, every);
    expect_same(train(job), expected);
    EXPECT_EQ(runtime::plan_pipeline(job.request).ranks[0].gradient_sets, 1);
  }
}

// What tells windows from none, so that the tests above cannot pass without them.
TEST(PartialReduction, WindowsChangeTheOrderOfTheSum) {
  const Result whole = train(windowed(tiny_llama(), 1, {"1f1b"}, 6, 2, 0));
  const Result windows = train(windowed(tiny_llama(), 1, {"1f1b"}, 6, 2, 2));
  EXPECT_NE(windows.norms, whole.norms);
  EXPECT_NEAR(windows.norms[0], whole.norms[0], 1e-5 * whole.norms[0]);
}

}  // namespace
}  // namespace penstock::testing
