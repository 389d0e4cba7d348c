#include "model/parameter.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "model/flops.h"
#include "model/initialise.h"
#include "tests/model/pipeline.h"

namespace penstock::testing {
namespace {

using model::ParameterSpec;

std::vector<std::string> names(const std::vector<ParameterSpec>& specs) {
  std::vector<std::string> list;
  list.reserve(specs.size());
  for (const ParameterSpec& spec : specs) list.push_back(spec.name);
  return list;
}

ModelSection gpt2_124m() {
  ModelSection model = small_gpt2();
  model.layers = 12;
  model.hidden_size = 768;
  model.heads = model.kv_heads = 12;
  model.head_dim = 64;
  model.ffn_hidden_size = 3072;
  model.sequence_length = 1024;
  model.vocab_size = 50257;
  return model;
}

TEST(Units, StandAlongTheModel) {
  const ModelSection model = small_gpt2();
  std::vector<std::string> found;
  found.reserve(6);
  for (int unit = 0; unit < model::unit_count(model); ++unit)
    found.push_back(name_of(model::unit_at(model, unit)));
  EXPECT_THAT(found,
              ::testing::ElementsAre("embedding", "attention_0", "mlp_0", "attention_1", "mlp_1", "head"));
  EXPECT_THROW(model::unit_at(model, 6), UsageError);
  EXPECT_THROW(model::unit_at(model, -1), UsageError);
}

TEST(Parameters, HaveGlobalNames) {
  ModelSection gpt2 = small_gpt2();
  gpt2.layers = 1;
  EXPECT_THAT(
      names(model::model_parameters(gpt2)),
      ::testing::ElementsAre(
          "embedding.token.weight", "embedding.position.weight", "layers.0.attention.norm.weight",
          "layers.0.attention.norm.bias", "layers.0.attention.qkv.weight", "layers.0.attention.qkv.bias",
          "layers.0.attention.out.weight", "layers.0.attention.out.bias", "layers.0.mlp.norm.weight",
          "layers.0.mlp.norm.bias", "layers.0.mlp.up.weight", "layers.0.mlp.up.bias",
          "layers.0.mlp.down.weight", "layers.0.mlp.down.bias", "head.norm.weight", "head.norm.bias"));
  ModelSection llama = small_llama();
  llama.layers = 1;
  EXPECT_THAT(names(model::model_parameters(llama)),
              ::testing::ElementsAre("embedding.token.weight", "layers.0.attention.norm.weight",
                                     "layers.0.attention.qkv.weight", "layers.0.attention.qkv.bias",
                                     "layers.0.attention.q_norm.weight", "layers.0.attention.k_norm.weight",
                                     "layers.0.attention.out.weight", "layers.0.mlp.norm.weight",
                                     "layers.0.mlp.gate_up.weight", "layers.0.mlp.down.weight",
                                     "head.norm.weight", "head.weight"));
}

TEST(Parameters, OfGpt2AndLlamaAreAsManyAsPublished) {
  EXPECT_EQ(model::parameter_count(gpt2_124m()), 124439808);
  ModelSection llama;  // Llama 3.1 8B
  llama.family = Family::llama;
  llama.layers = 32;
  llama.hidden_size = 4096;
  llama.heads = 32;
  llama.kv_heads = 8;
  llama.head_dim = 128;
  llama.ffn_hidden_size = 14336;
  llama.sequence_length = 8192;
  llama.vocab_size = 128256;
  EXPECT_EQ(model::parameter_count(llama), 8030261248);
}

TEST(Parameters, DecayIfTheyAreMatrices) {
  for (const ModelSection& model : {small_gpt2(), small_llama()}) {
    for (const ParameterSpec& spec : model::model_parameters(model)) {
      EXPECT_EQ(spec.decay, spec.shape.rank == 2) << spec.name;
      EXPECT_EQ(spec.compute_copy, spec.shape.rank == 2) << spec.name;
    }
  }
}

TEST(Flops, FollowTheStatedFormula) {
  // 12 layers of 12·768² weights and the head's 50257·768; attention 6·12·768·1025.
  EXPECT_EQ(model::matmul_parameters(gpt2_124m()), 12 * 12 * 768 * 768 + 50257 * 768);
  EXPECT_DOUBLE_EQ(model::training_flops_per_token(gpt2_124m()),
                   6.0 * (12 * 12 * 768 * 768 + 50257 * 768) + 6.0 * 12 * 768 * 1025);
}

TEST(Initialisation, HasTheStatedMomentsAndIsNormal) {
  const int64_t count = 200001;
  std::vector<float> values(static_cast<size_t>(count));
  model::NormalNumbers(7, "layers.0.mlp.up.weight").fill(0, count, 0.02, values.data());
  double sum = 0;
  double squares = 0;
  int64_t inside = 0;
  int64_t far = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
    inside += std::abs(value) < 0.02F ? 1 : 0;
    far += std::abs(value) > 0.06F ? 1 : 0;
  }
  const double n = static_cast<double>(count);
  EXPECT_NEAR(sum / n, 0, 4 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 0.02 * 4 / std::sqrt(2 * n));
  EXPECT_NEAR(static_cast<double>(inside) / n, 0.6827, 0.005);
  EXPECT_NEAR(static_cast<double>(far) / n, 0.0027, 0.0006);
}

TEST(Initialisation, OfAnElementDependsOnSeedAndNameAlone) {
  std::vector<float> whole(101);
  const model::NormalNumbers numbers(3, "a");
  numbers.fill(0, 101, 1, whole.data());
  for (int64_t begin = 0; begin < 101; begin += 7) {
    const int64_t end = std::min<int64_t>(begin + 7, 101);
    std::vector<float> part(static_cast<size_t>(end - begin));
    numbers.fill(begin, end, 1, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin)) << begin;
  }
  std::vector<float> other(101);
  model::NormalNumbers(4, "a").fill(0, 101, 1, other.data());
  EXPECT_NE(whole, other);
  model::NormalNumbers(3, "b").fill(0, 101, 1, other.data());
  EXPECT_NE(whole, other);
  const std::set<float> distinct(whole.begin(), whole.end());
  EXPECT_EQ(distinct.size(), whole.size());
}

TEST(Initialisation, IsTheSameWhateverTheThreadsAndTheCut) {
  PipelineOptions options;
  options.model = small_gpt2();
  options.model.ffn_hidden_size = 4001;  // large enough to be shared out among threads
  const Values expected = Pipeline(options).parameters();
  options.threads = 3;
  expect_same(Pipeline(options).parameters(), expected, "threads");
  model::StageConfig first;
  first.end = 3;
  model::StageConfig second;
  second.begin = 3;
  second.end = 6;
  options.ranks = {{first}, {second}};
  expect_same(Pipeline(options).parameters(), expected, "two ranks");
}

TEST(Initialisation, FollowsGpt2) {
  PipelineOptions options;
  options.model = small_gpt2();
  options.model.hidden_size = 96;
  options.model.head_dim = 32;
  options.model.ffn_hidden_size = 384;
  const Values values = Pipeline(options).parameters();
  const auto deviation = [&](const std::string& name) {
    double squares = 0;
    for (const float value : values.at(name)) squares += static_cast<double>(value) * value;
    return std::sqrt(squares / static_cast<double>(values.at(name).size()));
  };
  EXPECT_NEAR(deviation("layers.1.mlp.up.weight"), 0.02, 0.0006);
  EXPECT_NEAR(deviation("layers.0.attention.qkv.weight"), 0.02, 0.0006);
  EXPECT_NEAR(deviation("layers.1.mlp.down.weight"), 0.02 / 2, 0.0003);  // sqrt(2 · 2 layers)
  EXPECT_NEAR(deviation("layers.0.attention.out.weight"), 0.02 / 2, 0.0005);
  EXPECT_THAT(values.at("layers.0.mlp.norm.weight"), ::testing::Each(1.0F));
  EXPECT_THAT(values.at("layers.0.mlp.norm.bias"), ::testing::Each(0.0F));
  EXPECT_THAT(values.at("layers.0.mlp.up.bias"), ::testing::Each(0.0F));
  const std::vector<float>& tokens = values.at("embedding.token.weight");
  ASSERT_EQ(tokens.size(), 128U * 96U);
  for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(tokens[i] == 0.0F, i >= 67U * 96U) << i;
}

}  // namespace
}  // namespace penstock::testing
