// Boundaries between stages in a dtype of their own: bits depend on where the model is cut and on nothing
// else, and the error is that of the rounding. Loss scaling: what it changes, which is nothing, and what it
// saves.
#include <cmath>
#include <mutex>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/memory_plan.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

// Four stages, whoever holds them.
Job four_stages(const ModelSection& model, const std::string& schedule, int chunks, DType compute,
                std::optional<DType> wire) {
  Job job = make_job(model, 4 / chunks, schedule, chunks, 8);
  job.request.common.compute = compute;
  job.request.common.wire = wire;
  job.loss_scale = 1024;
  return job;
}

struct Pair {
  DType compute;
  DType wire;
};

int digits(DType dtype) {
  return dtype == DType::fp32 ? 24 : dtype == DType::fp16 ? 11 : 8;
}

class Wire : public ::testing::TestWithParam<Pair> {
 protected:
  // Values of bf16 are values of fp16 where neither overflows nor vanishes.
  static bool loses() { return digits(GetParam().wire) < digits(GetParam().compute); }
  Job job(const ModelSection& model, const std::string& schedule, int chunks) const {
    return four_stages(model, schedule, chunks, GetParam().compute, GetParam().wire);
  }
};

TEST_P(Wire, SameBitsForTheSameCuts) {
  for (const ModelSection& model : {tiny_gpt2(), tiny_llama()}) {
    const Result expected = train(job(model, "1f1b", 1));
    for (const auto& [schedule, chunks] :
         {std::pair("gpipe", 1), std::pair("zb-h1", 1), std::pair("interleaved", 2), std::pair("zbv", 2),
          std::pair("dualpipev", 2), std::pair("hanayo", 2)}) {
      SCOPED_TRACE(schedule);
      expect_same(train(job(model, schedule, chunks)), expected);
    }
    Job other = job(model, "zbv", 2);
    other.transport.buffered = true;
    other.mode = StreamMode::shuffled;
    other.request.recompute.mode = RecomputeMode::full;
    expect_same(train(other), expected);
  }
}

// A boundary is rounded three times on its way, and its gradient as often: relative errors of half a unit in
// the last place each, which add up to a few of them in the loss and in the norm.
TEST_P(Wire, TheErrorIsThatOfTheRounding) {
  const auto [compute, wire] = GetParam();
  const Result exact = train(four_stages(tiny_llama(), "1f1b", 1, compute, std::nullopt));
  const Result found = train(job(tiny_llama(), "1f1b", 1));
  if (!loses()) {
    expect_same(found, exact);
    return;
  }
  const double unit = std::ldexp(1.0, -digits(wire));
  EXPECT_NE(found.norms, exact.norms);
  EXPECT_NEAR(found.losses[0], exact.losses[0], 4 * unit * exact.losses[0]);
  EXPECT_NEAR(found.norms[0], exact.norms[0], 4 * unit * exact.norms[0]);
}

TEST_P(Wire, EvaluationRoundsAsTrainingDoes) {
  const auto evaluated = [](const Job& job) {
    std::mutex mutex;
    double sum = 0;
    run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
      std::vector<HostBatch> batches = batches_of(job, 0, engine.place().replica);
      const double mine = engine.evaluate(bands_of(batches, engine.holds_first(), engine.holds_last()));
      const std::lock_guard lock(mutex);
      sum = mine;
    });
    return sum;
  };
  const double exact = evaluated(four_stages(tiny_llama(), "1f1b", 1, GetParam().compute, std::nullopt));
  const double found = evaluated(job(tiny_llama(), "1f1b", 1));
  EXPECT_EQ(evaluated(job(tiny_llama(), "zbv", 2)), found);
  EXPECT_EQ(found != exact, loses());
  EXPECT_NEAR(found, exact, 0x1p-6 * exact);
}

TEST_P(Wire, BuffersHaveItsSizeAndOneOfTheComputeDtypeIsConverted) {
  const runtime::PipelinePlan plan = runtime::plan_pipeline(job(tiny_llama(), "1f1b", 1).request);
  const auto elements = static_cast<size_t>(plan.ranks[1].shape().rows() * tiny_llama().hidden_size);
  EXPECT_EQ(model::boundary_bytes(plan.ranks[1]), aligned(elements * size_of(GetParam().wire)));
  EXPECT_EQ(model::staging_bytes(plan.ranks[1]), aligned(elements * size_of(GetParam().compute)));
}

INSTANTIATE_TEST_SUITE_P(Pairs, Wire,
                         ::testing::Values(Pair{DType::fp32, DType::bf16}, Pair{DType::fp32, DType::fp16},
                                           Pair{DType::bf16, DType::fp32}, Pair{DType::bf16, DType::fp16},
                                           Pair{DType::fp16, DType::bf16}),
                         [](const auto& test) {
                           return fmt::format("{}_over_{}", name_of(test.param.compute),
                                              name_of(test.param.wire));
                         });

// Powers of two move the exponent alone: gradients, norm, clipping and update are the same bits.
TEST(LossScale, ChangesNoBitOfFp32) {
  for (const ModelSection& model : {tiny_gpt2(), tiny_llama()}) {
    Job job = make_job(model, 2, "1f1b", 1, 4, 2);
    const Result expected = train(job);
    for (const double scale : {0x1p-4, 0x1p16}) {
      job.loss_scale = scale;
      expect_same(train(job), expected);
    }
  }
}

// A scale that one rank's gradients do not survive: no rank updates anything, and all see the same.
TEST(LossScale, AnOverflowOnOneRankIsKnownToAll) {
  Job job = make_job(tiny_llama(), 2, "1f1b", 1, 4);
  job.request.common.compute = DType::fp16;
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
    Values before;
    collect(engine.rank(), before);
    const auto step_with = [&](double scale) {
      std::vector<HostBatch> batches = batches_of(job, 0, 0);
      const auto bands = bands_of(batches, engine.holds_first(), engine.holds_last());
      engine.start_step({0, 1e-2, 4 * 2 * 5, scale}, bands);
      return engine.finish_step();
    };
    const model::StepResult overflowed = step_with(0x1p40);
    EXPECT_FALSE(overflowed.applied);
    EXPECT_TRUE(std::isfinite(overflowed.loss_sum));
    Values after;
    collect(engine.rank(), after);
    EXPECT_EQ(after, before);
    const model::StepResult good = step_with(0x1p10);
    EXPECT_TRUE(good.applied);
    EXPECT_EQ(good.loss_sum, overflowed.loss_sum);
  });
}

// The gradients of a long step vanish in fp16 without a scale: the norm is wrong then, and right with one.
TEST(LossScale, KeepsWhatWouldVanish) {
  Job job = make_job(tiny_llama(), 1, "1f1b", 1, 4);
  const auto norm_of = [&](DType compute, double scale) {
    job.request.common.compute = compute;
    std::mutex mutex;
    double norm = 0;
    run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
      std::vector<HostBatch> batches = batches_of(job, 0, 0);
      // As if the step had millions of tokens more, whose gradients are 0.
      engine.start_step({0, 1e-2, int64_t{1} << 24, scale}, bands_of(batches));
      const std::lock_guard lock(mutex);
      norm = engine.finish_step().gradient_norm;
    });
    return norm;
  };
  const double exact = norm_of(DType::fp32, 1);
  EXPECT_NEAR(norm_of(DType::fp16, 0x1p20), exact, 0.01 * exact);
  EXPECT_GT(std::abs(norm_of(DType::fp16, 1) - exact), 0.3 * exact);
}

// Activations that the wire cannot hold are found at the unit that sent them.
TEST(WireOverflow, IsFoundAtTheUnitThatSent) {
  Job job = four_stages(tiny_llama(), "1f1b", 1, DType::fp32, DType::fp16);
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
    for (const model::Parameter& parameter : engine.rank().parameters().parameters()) {
      if (parameter.unit != 0) continue;
      auto* values = parameter.master.as<float>();
      for (int64_t i = 0; i < parameter.master.elements(); ++i) values[i] *= 1e8F;
    }
    std::vector<HostBatch> batches = batches_of(job, 0, 0);
    const auto bands = bands_of(batches, engine.holds_first(), engine.holds_last());
    const auto found = engine.find_nonfinite(bands);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->where.what, "output");
    EXPECT_EQ(found->where.unit, engine.plan().unit_count(0) - 1);
  });
}

}  // namespace
}  // namespace penstock::testing
