// Contract C1: the bits of losses, gradient norm and parameters depend neither on recompute modes, on the
// order of the halves of the backward, on how the model is cut, on threads, nor on when streams run.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/model/pipeline.h"

namespace penstock::testing {
namespace {

using model::StageConfig;

struct Result {
  std::vector<double> losses;
  std::vector<double> norms;
  Values parameters;
};

struct Case {
  std::string name;
  ModelSection model;
  DType compute;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType compute : {DType::fp32, DType::bf16, DType::fp16}) {
    const std::string suffix = std::string("_") + std::string(name_of(compute));
    ModelSection gpt2 = small_gpt2();
    gpt2.dropout = 0.2;
    all.push_back({"gpt2_tied_dropout" + suffix, gpt2, compute});
    all.push_back({"llama_untied" + suffix, small_llama(), compute});
  }
  ModelSection untied = small_gpt2();
  untied.tie_embeddings = false;
  untied.qk_norm = true;
  all.push_back({"gpt2_untied_qk_norm", untied, DType::fp32});
  ModelSection plain = small_llama();
  plain.tie_embeddings = true;
  plain.qkv_bias = plain.qk_norm = false;
  plain.dropout = 0.1;
  all.push_back({"llama_tied_plain", plain, DType::fp32});
  return all;
}

PipelineOptions options_of(const Case& test) {
  PipelineOptions options;
  options.model = test.model;
  options.compute = test.compute;
  options.micro_batches = 3;
  return options;
}

Result run(const PipelineOptions& options, Order order = Order::one_by_one) {
  Pipeline pipeline(options);
  Result result;
  for (int64_t step = 0; step < 2; ++step) {
    std::vector<HostBatch> batches;
    for (int64_t m = 0; m < options.micro_batches; ++m)
      batches.push_back(random_batch(options.model, options.micro_batch,
                                     (step * options.micro_batches + m) * options.micro_batch));
    result.losses.push_back(pipeline.step(batches, order));
    result.norms.push_back(pipeline.result().gradient_norm);
  }
  result.parameters = pipeline.parameters();
  return result;
}

void expect_same_run(const Result& a, const Result& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  expect_same(a.parameters, b.parameters, what);
}

StageConfig stage(int begin, int end, int slots = 1) {
  StageConfig config;
  config.begin = begin;
  config.end = end;
  config.forward_slots = config.kept_slots = config.weight_slots = slots;
  return config;
}

class Invariance : public ::testing::TestWithParam<Case> {
 protected:
  Result baseline() { return run(options_of(GetParam())); }
};

TEST_P(Invariance, RecomputeModes) {
  const Result expected = baseline();
  for (const RecomputeMode mode : {RecomputeMode::selective, RecomputeMode::full}) {
    PipelineOptions options = options_of(GetParam());
    options.recompute = mode;
    expect_same_run(run(options), expected, mode == RecomputeMode::full ? "full" : "selective");
    expect_same_run(run(options, Order::weights_last), expected, "recomputed, weights last");
  }
  PipelineOptions mixed = options_of(GetParam());
  mixed.ranks = {{stage(0, 6)}};
  mixed.ranks[0][0].recompute = {RecomputeMode::none,      RecomputeMode::full, RecomputeMode::selective,
                                 RecomputeMode::selective, RecomputeMode::none, RecomputeMode::full};
  expect_same_run(run(mixed), expected, "a mode a unit");
}

TEST_P(Invariance, OrderOfTheHalves) {
  const Result expected = baseline();
  expect_same_run(run(options_of(GetParam()), Order::weights_last), expected, "every W after every I");
  expect_same_run(run(options_of(GetParam()), Order::forwards_first), expected, "every F first");
}

TEST_P(Invariance, WhereTheModelIsCut) {
  const Result expected = baseline();
  const std::vector<std::pair<std::string, std::vector<std::vector<StageConfig>>>> cuts{
      {"two ranks", {{stage(0, 3, 3)}, {stage(3, 6, 3)}}},
      {"two ranks inside a layer", {{stage(0, 2, 3)}, {stage(2, 6, 3)}}},
      {"three ranks, embedding and head alone", {{stage(0, 1, 3)}, {stage(1, 5, 3)}, {stage(5, 6, 3)}}},
      {"a rank a unit",
       {{stage(0, 1, 3)},
        {stage(1, 2, 3)},
        {stage(2, 3, 3)},
        {stage(3, 4, 3)},
        {stage(4, 5, 3)},
        {stage(5, 6, 3)}}},
      {"two stages on one rank", {{stage(0, 3, 3), stage(3, 6, 3)}}},
      {"first and last stage on one rank", {{stage(0, 2, 3), stage(4, 6, 3)}, {stage(2, 4, 3)}}},
  };
  for (const auto& [what, ranks] : cuts) {
    PipelineOptions options = options_of(GetParam());
    options.ranks = ranks;
    expect_same_run(run(options), expected, what);
    options.recompute = RecomputeMode::full;
    expect_same_run(run(options, Order::weights_last), expected, what + ", recomputed, weights last");
  }
}

TEST_P(Invariance, ThreadsAndStreams) {
  PipelineOptions options = options_of(GetParam());
  options.micro_batches = 2;
  const Result expected = run(options);
  options.threads = 2;
  expect_same_run(run(options), expected, "two threads");
  options.threads = 1;
  options.mode = StreamMode::inline_now;
  expect_same_run(run(options), expected, "inline");
  options.mode = StreamMode::shuffled;
  expect_same_run(run(options), expected, "shuffled");
}

TEST_P(Invariance, SlotsThatAreUsedAgain) {
  const Result expected = baseline();
  PipelineOptions options = options_of(GetParam());
  options.ranks = {{stage(0, 6, 1)}};
  expect_same_run(run(options), expected, "one slot for three micro-batches");
}

INSTANTIATE_TEST_SUITE_P(All, Invariance, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace penstock::testing
