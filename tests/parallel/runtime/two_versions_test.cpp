// Asynchronous training is what one process computes that keeps two versions of the weights: every step reads
// those of one update ago. To the bit, whatever the ranks, the cut, recomputation, transport and threads, and
// wherever the pipeline is drained.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "tests/parallel/runtime/rank_backend.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

using ::testing::HasSubstr;

ModelSection model_of(bool llama, bool tied) {
  ModelSection model = llama ? tiny_llama() : tiny_gpt2();
  model.tie_embeddings = tied;
  return model;
}

std::vector<std::vector<float>> masters_of(const model::ParameterStore& store) {
  std::vector<std::vector<float>> masters;
  for (const model::Parameter& parameter : store.parameters()) {
    const auto* begin = parameter.master.as<float>();
    masters.emplace_back(begin, begin + parameter.master.elements());
  }
  return masters;
}

/// The simulation: a model with one version of the weights, whose masters are exchanged around each step. It
/// knows no schedule, no second version and no second set of gradients. Replicas one after another, added in
/// their order.
class Delayed {
 public:
  explicit Delayed(const Job& job)
      : job_(job),
        backend_(make_rank_backend({}, nullptr)),
        rank_(*backend_.device, backend_.math, config(job)) {
    stream_ = backend_.device->create_stream("compute", StreamUse::compute);
    rank_.initialise(*stream_);
    earlier_ = masters_of(rank_.parameters());
  }

  Result train() {
    Result result;
    for (int step = 0; step < job_.steps; ++step) {
      const std::vector<std::vector<float>> now = masters_of(rank_.parameters());
      put(earlier_);
      double loss = 0;
      const model::StepInputs inputs = inputs_of(job_, step);
      std::vector<std::vector<float>> sum;
      for (int replica = 0; replica < job_.request.parallel.data; ++replica)
        add(sum, gradients(inputs, batches_of(job_, step, replica), loss));
      put(now);
      for (size_t unit = 0; unit < sum.size(); ++unit) {
        const Tensor& values = rank_.parameters().unit_gradients()[unit].values;
        std::memcpy(values.data, sum[unit].data(), values.bytes());
      }
      rank_.optimizer().finish(*stream_);
      result.losses.push_back(loss / static_cast<double>(inputs.target_tokens));
      result.norms.push_back(rank_.read(*stream_).gradient_norm);
      earlier_ = now;
    }
    collect(rank_, result.parameters);
    return result;
  }

 private:
  static model::RankConfig config(const Job& job) {
    model::RankConfig made = job.request.common;
    made.stages = {model::whole_model(made.model, RecomputeMode::none)};
    return made;
  }

  void put(const std::vector<std::vector<float>>& masters) {
    size_t at = 0;
    for (const model::Parameter& parameter : rank_.parameters().parameters())
      std::memcpy(parameter.master.data, masters[at++].data(), parameter.master.bytes());
    rank_.parameters().refresh_compute(*stream_, rank_.math());
    stream_->synchronize();
  }

  std::vector<std::vector<float>> gradients(const model::StepInputs& inputs, std::vector<HostBatch> batches,
                                            double& loss) {
    const auto bands = bands_of(batches);
    rank_.optimizer().begin(*stream_, inputs);
    rank_.zero_losses(*stream_);
    for (size_t m = 0; m < bands.size(); ++m) {
      const auto micro_batch = static_cast<int64_t>(m);
      rank_.stage(0).forward(*stream_, {}, micro_batch, bands[m], model::Pass::training);
      rank_.stage(0).backward_input(*stream_, {}, micro_batch);
      rank_.stage(0).backward_weight(*stream_, {});
    }
    stream_->synchronize();
    for (size_t m = 0; m < bands.size(); ++m) loss += rank_.losses().as<double>()[m];
    std::vector<std::vector<float>> all;
    for (const auto& unit : rank_.parameters().unit_gradients()) {
      const auto* begin = unit.values.as<float>();
      all.emplace_back(begin, begin + unit.values.elements());
    }
    return all;
  }

  static void add(std::vector<std::vector<float>>& sum, const std::vector<std::vector<float>>& more) {
    if (sum.empty()) {
      sum = more;
      return;
    }
    for (size_t unit = 0; unit < sum.size(); ++unit) {
      for (size_t i = 0; i < sum[unit].size(); ++i) sum[unit][i] += more[unit][i];
    }
  }

  Job job_;
  RankBackend backend_;
  model::RankModel rank_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::vector<float>> earlier_;
};

/// Steps overlap, but that the pipeline is drained behind those of `drained`.
Result train_overlapping(const Job& job, const std::vector<int>& drained = {}) {
  std::mutex mutex;
  Result result;
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
    const auto drains = [&](int step) {
      return step + 1 == job.steps || std::count(drained.begin(), drained.end(), step) > 0;
    };
    Result mine;
    std::map<int, std::vector<HostBatch>> batches;
    std::map<int, std::vector<model::SideBand>> bands;
    const auto start = [&](int step) {
      batches[step] = batches_of(job, step, engine.place().replica);
      bands[step] = bands_of(batches[step], engine.holds_first(), engine.holds_last());
      engine.start_step(inputs_of(job, step), bands[step]);
    };
    for (int step = 0; step < job.steps; ++step) {
      if (engine.started_steps() == 0) start(step);
      if (!drains(step)) start(step + 1);
      const model::StepResult finished = engine.finish_step();
      EXPECT_TRUE(finished.applied);
      mine.losses.push_back(finished.loss_sum / static_cast<double>(inputs_of(job, step).target_tokens));
      mine.norms.push_back(finished.gradient_norm);
      batches.erase(step);
    }
    EXPECT_EQ(engine.rank().memory().unclaimed(), std::vector<std::string>{});
    const std::lock_guard lock(mutex);
    if (result.losses.empty()) {
      result.losses = mine.losses;
      result.norms = mine.norms;
    }
    EXPECT_EQ(result.losses, mine.losses) << "rank " << world.rank();
    EXPECT_EQ(result.norms, mine.norms) << "rank " << world.rank();
    collect(engine.rank(), result.parameters);
  });
  return result;
}

Job two_versions(const ModelSection& model, int pipeline, int micro_batches, int replicas = 1) {
  Job job = make_job(model, pipeline, "2bw", 1, micro_batches, replicas);
  job.steps = 7;
  return job;
}

class TwoVersions : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  static ModelSection model() { return model_of(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

TEST_P(TwoVersions, SameBitsAsTheSimulationOfItsDelays) {
  for (const auto& [pipeline, micro_batches, replicas] :
       {std::tuple(1, 1, 1), std::tuple(1, 3, 1), std::tuple(2, 2, 1), std::tuple(2, 5, 1),
        std::tuple(4, 4, 1), std::tuple(4, 7, 1), std::tuple(2, 4, 2), std::tuple(4, 5, 2),
        std::tuple(1, 2, 2)}) {
    SCOPED_TRACE(fmt::format("P = {}, M = {}, D = {}", pipeline, micro_batches, replicas));
    const Job job = two_versions(model(), pipeline, micro_batches, replicas);
    const Result expected = Delayed(job).train();
    expect_same(train_overlapping(job), expected);
    expect_same(train(job), expected);  // drained behind every step
  }
}

TEST_P(TwoVersions, WhateverElseDiffers) {
  Job job = two_versions(model(), 4, 6, 2);
  const Result expected = Delayed(job).train();
  job.request.recompute.mode = RecomputeMode::full;
  job.request.parallel.partition = PartitionMethod::units;
  job.request.parallel.partition_units = {1, 4, 2, 3};
  expect_same(train_overlapping(job), expected);
  job.request.recompute.stages = {RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full,
                                  RecomputeMode::selective};
  job.request.parallel.order = RankOrder::data_first;
  job.request.parallel.bucket_mib = 64;
  job.mode = StreamMode::shuffled;
  expect_same(train_overlapping(job, {0, 3}), expected);
  job.request.recompute.stages.clear();
  job.request.recompute.mode = RecomputeMode::selective;
  job.request.parallel.partition_units = {5, 1, 1, 3};
  job.transport.buffered = true;
  job.threads = 2;
  expect_same(train_overlapping(job, {1, 2}), expected);
}

TEST_P(TwoVersions, NarrowCompute) {
  Job job = two_versions(model(), 4, 4);
  job.request.common.compute = DType::bf16;
  expect_same(train_overlapping(job, {2}), Delayed(job).train());
}

INSTANTIATE_TEST_SUITE_P(All, TwoVersions, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param) ? "llama" : "gpt2",
                                              std::get<1>(test.param) ? "tied" : "untied");
                         });

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
