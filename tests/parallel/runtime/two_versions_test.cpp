// Asynchronous training is what one process computes that keeps two versions of the weights: every step reads
// those of one update ago. To the bit, whatever the ranks, the cut, recomputation, transport and threads, and
// wherever the pipeline is drained.
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "tests/parallel/runtime/delayed.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

using ::testing::HasSubstr;

Job two_versions(const ModelSection& model, int pipeline, int micro_batches, int replicas = 1) {
  Job job = make_job(model, pipeline, "2bw", 1, micro_batches, replicas);
  job.steps = 7;
  return job;
}

Job sharded(Job job) {
  job.request.parallel.sharded_optimizer = true;
  return job;
}

class TwoVersions : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  static ModelSection model() { return tiny_model(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

TEST_P(TwoVersions, SameBitsAsTheSimulationOfItsDelays) {
  for (const auto& [pipeline, micro_batches, replicas] :
       {std::tuple(1, 1, 1), std::tuple(1, 3, 1), std::tuple(2, 2, 1), std::tuple(2, 5, 1),
        std::tuple(4, 4, 1), std::tuple(4, 7, 1), std::tuple(2, 4, 2), std::tuple(4, 5, 2),
        std::tuple(1, 2, 2)}) {
    SCOPED_TRACE(fmt::format("P = {}, M = {}, D = {}", pipeline, micro_batches, replicas));
    const Job job = two_versions(model(), pipeline, micro_batches, replicas);
    const Result expected = train_delayed(job);
    expect_same(train(job, overlapping()), expected);
    expect_same(train(job), expected);  // drained behind every step
    if (replicas > 1) expect_same(train(sharded(job), overlapping({1})), expected);
  }
}

TEST_P(TwoVersions, WhateverElseDiffers) {
  const Job job = two_versions(model(), 4, 6, 2);
  const Result expected = train_delayed(job);
  for (const Job& other : same_results(job)) {
    expect_same(train(other, overlapping({0, 3})), expected);
    expect_same(train(sharded(other), overlapping()), expected);
  }
}

TEST_P(TwoVersions, NarrowCompute) {
  Job job = two_versions(model(), 2, 4, 2);
  job.request.common.compute = DType::bf16;
  const Result expected = train_delayed(job);
  expect_same(train(job, overlapping({2})), expected);
  expect_same(train(sharded(job), overlapping({2})), expected);
}

INSTANTIATE_TEST_SUITE_P(All, TwoVersions, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param) ? "llama" : "gpt2",
                                              std::get<1>(test.param) ? "tied" : "untied");
                         });

// Each member updates its share of the weights, and copies the whole of what the others gathered to the
// version before.
TEST(TwoVersionsOfWeights, MayShareAnOptimizerWhereParametersAreCut) {
  for (const bool llama : {false, true}) {
    for (const auto& [pipeline, replicas] : {std::pair(1, 2), {2, 2}, {2, 3}, {1, 4}}) {
      for (const DType compute : {DType::fp32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{}, P = {}, D = {}, {}", llama ? "llama" : "gpt2", pipeline, replicas,
                                 name_of(compute)));
        Job job = two_versions(model_of_blocks(llama, !llama || pipeline == 1), pipeline, 3, replicas);
        job.request.common.compute = compute;
        job.request.parallel.bucket_mib = 0.02;
        job.steps = 5;
        expect_same(train(sharded(job), overlapping({1})), train_delayed(job));
      }
    }
  }
}

TEST(TwoVersionsOfWeights, MayShareAnOptimizerWithEveryKindOfSum) {
  for (const GradientSum sum : {GradientSum::ordered, GradientSum::library}) {
    for (const DType wire : {DType::fp32, DType::bf16}) {
      Job job = two_versions(model_of_blocks(false, true), 2, 3, 3);
      job.request.parallel.gradient_sum = sum;
      job.request.gradient_wire = wire;
      job.steps = 4;
      const Result expected = train(job);
      expect_same(train(job, overlapping()), expected);
      expect_same(train(sharded(job), overlapping()), expected);
    }
  }
}

// Losses of evaluations between steps, and of one before the first.
TEST(TwoVersionsOfWeights, EvaluationsSeeWhatOthersUpdated) {
  const auto evaluations = [](const Job& job) {
    std::mutex mutex;
    std::vector<double> losses;
    run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
      std::vector<HostBatch> batches = batches_of(job, 50, 0);
      const auto bands = bands_of(batches);
      std::vector<double> mine{engine.evaluate(bands)};
      Result result;
      for (int step = 0; step < 4; ++step) {
        train_step(job, engine, step, result);
        if (step != 1) mine.push_back(engine.evaluate(bands));
      }
      const std::lock_guard lock(mutex);
      if (losses.empty()) losses = mine;
      EXPECT_EQ(losses, mine) << "rank " << world.rank();
    });
    return losses;
  };
  for (const DType compute : {DType::fp32, DType::bf16}) {
    Job job = two_versions(model_of_blocks(false, true), 2, 2, 2);
    job.request.common.compute = compute;
    EXPECT_EQ(evaluations(sharded(job)), evaluations(job));
  }
}

// It is not synchronous training by another name.
TEST(TwoVersionsOfWeights, AreOneUpdateApart) {
  const Result found = train(two_versions(tiny_gpt2(), 2, 4));
  Job flushed = make_job(tiny_gpt2(), 2, "1f1b", 1, 4);
  flushed.steps = 7;
  const Result other = train(flushed);
  EXPECT_EQ(found.losses[0], other.losses[0]);
  EXPECT_EQ(found.norms[0], other.norms[0]);
  for (size_t step = 1; step < 7; ++step) EXPECT_NE(found.losses[step], other.losses[step]) << step;
}

// All that a checkpoint holds of a parameter, and that nothing else is needed: it is the whole state between
// two steps.
TEST(TwoVersionsOfWeights, EveryPieceOfStateIsRead) {
  const Job job = two_versions(tiny_gpt2(), 2, 3);
  const auto trained = [&](const std::string& lost) {
    std::mutex mutex;
    Result result;
    run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
      Result mine;
      for (int step = 0; step < job.steps; ++step) {
        train_step(job, engine, step, mine);
        if (step != 3) continue;
        for (const model::Parameter& parameter : engine.rank().parameters().parameters()) {
          if (parameter.shared || parameter.spec.name != "layers.1.mlp.up.weight") continue;
          EXPECT_TRUE(parameter.before);
          std::vector<model::NamedState> pieces{{".before", parameter.before}};
          for (const model::NamedState& piece : model::lasting_state(parameter)) pieces.push_back(piece);
          for (const model::NamedState& piece : pieces) {
            if (piece.ending == lost) engine.stream().fill_zero(piece.tensor.data, piece.tensor.bytes());
          }
        }
      }
      const std::lock_guard lock(mutex);
      result.losses = mine.losses;
      collect(engine.rank(), result.parameters);
    });
    return result;
  };
  const Result whole = trained("nothing");
  for (const char* lost : {"", ".moment1", ".moment2", ".before"}) {
    SCOPED_TRACE(lost);
    const Result found = trained(lost);
    EXPECT_EQ(found.losses[3], whole.losses[3]);
    EXPECT_NE(found.parameters, whole.parameters);
    EXPECT_NE(found.losses.back(), whole.losses.back());
  }
}

// A value that one stage alone has, in the weights that the first step reads: all ranks leave the step out,
// though the next one has begun.
TEST(TwoVersionsOfWeights, AllRanksSkipWhatIsNotFinite) {
  const Job job = two_versions(tiny_llama(), 4, 4);
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
    Values before;
    if (world.rank() == 3) {
      for (const model::Parameter& parameter : engine.rank().parameters().parameters()) {
        if (parameter.spec.name == "head.norm.weight") parameter.before.as<float>()[1] = std::nanf("");
      }
    }
    collect(engine.rank(), before);
    std::vector<HostBatch> first = batches_of(job, 0, 0);
    std::vector<HostBatch> second = batches_of(job, 1, 0);
    const auto bands = bands_of(first);
    const auto more = bands_of(second);
    engine.start_step(inputs_of(job, 0), bands);
    engine.start_step(inputs_of(job, 1), more);
    EXPECT_FALSE(engine.finish_step().applied);
    // The version of one update ago is then that of now, which was whole.
    EXPECT_TRUE(engine.finish_step().applied);
    Values after;
    collect(engine.rank(), after);
    EXPECT_NE(before, after);
    for (const auto& [name, values] : after) {
      for (const float value : values) ASSERT_TRUE(std::isfinite(value)) << name;
    }
  });
}

TEST(TwoVersionsOfWeights, RefuseWhatTheyCannotDo) {
  const auto refusal = [](const Job& job) -> std::string {
    try {
      runtime::plan_pipeline(job.request);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(two_versions(tiny_gpt2(), 4, 3)), HasSubstr("at least 4 micro-batches"));
  Job partial = two_versions(tiny_gpt2(), 2, 4, 2);
  partial.request.parallel.reduce_every = 2;
  EXPECT_THAT(refusal(partial), HasSubstr("parallel.reduce_every = 2"));
}

// Another thread sees what a rank does, in whichever of its two steps.
TEST(TwoVersionsOfWeights, TheFlightRecordFollows) {
  const Job job = two_versions(tiny_gpt2(), 2, 4, 2);
  run_ranks(sharded(job), [&](runtime::PipelineEngine& engine, transport::World&) {
    const Result mine = overlapping({4})(sharded(job), engine);
    EXPECT_FALSE(engine.flights()->now().working);
    const std::vector<runtime::Flight> flights = engine.flights()->lately();
    std::map<schedule::InstructionKind, int> seen;
    std::map<std::string, int> actions;
    for (const runtime::Flight& flight : flights) {
      EXPECT_GT(flight.start, 0);
      EXPECT_GE(flight.end, flight.start);
      ++seen[flight.instruction.kind];
      if (flight.instruction.kind == schedule::InstructionKind::compute)
        ++actions[to_string(flight.instruction)];
    }
    EXPECT_EQ(seen[schedule::InstructionKind::compute], 7 * 2 * 4);
    for (const auto kind : {schedule::InstructionKind::optimizer_step, schedule::InstructionKind::agree,
                            schedule::InstructionKind::gather_parameters})
      EXPECT_EQ(seen[kind], 7);
    // Micro-batches are told by their number in the step.
    EXPECT_EQ(actions.size(), 8U);
  });
}

TEST(TwoVersionsOfWeights, StepsAreStartedInTheirOrder) {
  const Job job = two_versions(tiny_gpt2(), 1, 1);
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
    std::vector<HostBatch> batches = batches_of(job, 0, 0);
    const auto bands = bands_of(batches);
    EXPECT_THROW(engine.finish_step(), UsageError);
    engine.start_step(inputs_of(job, 0), bands);
    EXPECT_THROW(engine.start_step(inputs_of(job, 2), bands), UsageError);
    engine.start_step(inputs_of(job, 1), bands);
    EXPECT_THROW(engine.start_step(inputs_of(job, 2), bands), UsageError);
    EXPECT_GT(engine.evaluate(bands), 0);  // drains
    EXPECT_TRUE(engine.finish_step().applied);
    EXPECT_TRUE(engine.finish_step().applied);
    EXPECT_EQ(engine.started_steps(), 0);
  });
}

}  // namespace
}  // namespace penstock::testing
