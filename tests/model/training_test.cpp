#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "model/nonfinite.h"
#include "model/rope_table.h"
#include "tests/model/pipeline.h"

namespace penstock::testing {
namespace {

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  return relative_error(a, {b.begin(), b.end()});
}

// A batch of M micro-batches of B sequences, the same sequences whatever M and B.
std::vector<HostBatch> batches(const PipelineOptions& options, int64_t first_sample = 0) {
  std::vector<HostBatch> all;
  for (int64_t m = 0; m < options.micro_batches; ++m)
    all.push_back(random_batch(options.model, options.micro_batch, first_sample + m * options.micro_batch));
  return all;
}

TEST(Training, StartsAtTheEntropyOfTheVocabularyAndLearnsABatchByHeart) {
  for (const ModelSection& model : {small_gpt2(), small_llama()}) {
    PipelineOptions options;
    options.model = model;
    Pipeline pipeline(options);
    std::vector<HostBatch> batch = batches(options);
    EXPECT_NEAR(pipeline.evaluate(batch), std::log(static_cast<double>(model.vocab_size)), 0.05);
    double loss = 0;
    for (int step = 0; step < 100; ++step) loss = pipeline.step(batch);
    EXPECT_LT(loss, 0.1);
    EXPECT_NEAR(pipeline.evaluate(batch), loss, 0.1);
  }
}

TEST(Training, InBf16StaysNearFp32) {
  for (const ModelSection& model : {small_gpt2(), small_llama()}) {
    PipelineOptions options;
    options.model = model;
    options.learning_rate = 2e-3;
    Pipeline single(options);
    options.compute = DType::bf16;
    Pipeline half(options);
    for (int step = 0; step < 20; ++step) {
      std::vector<HostBatch> batch = batches(options, 2 * (step % 4));
      const double expected = single.step(batch);
      EXPECT_NEAR(half.step(batch), expected, 0.01 * expected) << "step " << step;
    }
    std::vector<HostBatch> batch = batches(options);
    single.backward(batch);
    half.backward(batch);
    EXPECT_LT(distance(half.gradients().at("layers.1.mlp.down.weight"),
                       single.gradients().at("layers.1.mlp.down.weight")),
              0.1);
  }
}

TEST(Training, MicroBatchesAddUpToTheBatch) {
  for (const ModelSection& model : {small_gpt2(), small_llama()}) {
    PipelineOptions options;
    options.model = model;
    options.micro_batch = 4;
    Pipeline whole(options);
    std::vector<HostBatch> batch = batches(options);
    const double loss = whole.backward(batch);
    options.micro_batch = 1;
    options.micro_batches = 4;
    Pipeline parts(options);
    batch = batches(options);
    EXPECT_NEAR(parts.backward(batch), loss, 1e-6 * loss);
    const Values expected = whole.gradients();
    for (const auto& [name, values] : parts.gradients())
      EXPECT_LT(distance(values, expected.at(name)), 1e-5) << name;
  }
}

TEST(Training, TakesShapesOfOneAndOddSizes) {
  ModelSection one = small_gpt2();
  one.layers = 1;
  one.hidden_size = one.head_dim = 2;
  one.heads = one.kv_heads = 1;
  one.ffn_hidden_size = 1;
  one.sequence_length = 1;
  one.vocab_size = 2;
  one.vocab_pad = 1;
  ModelSection odd = small_llama();
  odd.layers = 1;
  odd.heads = odd.kv_heads = 1;
  odd.head_dim = 10;
  odd.hidden_size = 7;
  odd.ffn_hidden_size = 13;
  odd.sequence_length = 5;
  odd.vocab_size = 129;
  for (const ModelSection& model : {one, odd}) {
    PipelineOptions options;
    options.model = model;
    options.micro_batch = 1;
    options.backend = Backend::reference;
    Pipeline reference(options);
    options.backend = Backend::cpu;
    Pipeline pipeline(options);
    std::vector<HostBatch> batch = batches(options);
    for (int step = 0; step < 3; ++step)
      EXPECT_NEAR(pipeline.step(batch), reference.step(batch), 1e-5) << "step " << step;
    EXPECT_GT(pipeline.result().gradient_norm, 0);
  }
}

TEST(Training, NeverTouchesVocabularyPadding) {
  for (const ModelSection& model : {small_gpt2(), small_llama()}) {
    PipelineOptions options;
    options.model = model;
    Pipeline pipeline(options);
    std::vector<HostBatch> batch = batches(options);
    for (int step = 0; step < 3; ++step) pipeline.step(batch);
    const auto first = static_cast<int64_t>(model.vocab_size * model.hidden_size);
    const Values values = pipeline.parameters();
    for (const char* name : {"embedding.token.weight", "head.weight"}) {
      if (values.count(name) == 0) continue;
      const std::vector<float>& rows = values.at(name);
      EXPECT_GT(static_cast<int64_t>(rows.size()), first);
      EXPECT_TRUE(std::all_of(rows.begin() + first, rows.end(), [](float value) { return value == 0; }))
          << name;
    }
  }
}

TEST(Training, WithoutTargetsOfATokenIgnoresIt) {
  PipelineOptions options;
  options.model = small_gpt2();
  options.micro_batch = 1;
  Pipeline pipeline(options);
  std::vector<HostBatch> batch = batches(options);
  std::fill(batch[0].targets.begin() + 6, batch[0].targets.end(), -1);
  const double loss = pipeline.backward(batch);
  const Values expected = pipeline.gradients();
  // Nothing before token 6 sees what stands there and later.
  std::fill(batch[0].tokens.begin() + 6, batch[0].tokens.end(), 3);
  EXPECT_EQ(pipeline.backward(batch), loss);
  EXPECT_LT(
      distance(pipeline.gradients().at("layers.0.mlp.up.weight"), expected.at("layers.0.mlp.up.weight")),
      1e-6);
}

TEST(Dropout, FollowsTheSampleAndTheStepAndIsOffInEvaluation) {
  PipelineOptions options;
  options.model = small_gpt2();
  options.model.dropout = 0.3;
  Pipeline pipeline(options);
  std::vector<HostBatch> batch = batches(options);
  const double loss = pipeline.backward(batch);
  EXPECT_EQ(pipeline.backward(batch), loss);
  batch[0].samples = {900, 901};
  EXPECT_NE(pipeline.backward(batch), loss);
  batch = batches(options);
  const double clean = pipeline.evaluate(batch);
  EXPECT_NE(clean, loss);
  options.model.dropout = 0;
  Pipeline without(options);
  EXPECT_EQ(without.evaluate(batch), clean);
  options.model.dropout = 0.3;
  options.seed = 2;
  Pipeline other(options);
  other.load(pipeline.parameters());
  EXPECT_NE(other.backward(batch), loss);
  // The samples of a batch keep their masks when they travel alone.
  options.seed = 1;
  options.micro_batch = 1;
  options.micro_batches = 2;
  Pipeline alone(options);
  std::vector<HostBatch> split = batches(options);
  EXPECT_NEAR(alone.backward(split), loss, 1e-6 * loss);
}

// Two documents in one sequence, with the mask, are the two documents in sequences of their own.
TEST(DocumentMask, SeparatesWhatSharesASequence) {
  for (const ModelSection& family : {small_gpt2(), small_llama()}) {
    PipelineOptions options;
    options.model = family;
    options.model.sequence_length = 12;
    options.micro_batch = 1;
    options.document_mask = true;
    Pipeline packed(options);
    options.model.sequence_length = 6;
    options.micro_batch = 2;
    options.document_mask = false;
    Pipeline apart(options);
    std::vector<HostBatch> two = batches(options);
    std::vector<HostBatch> one = two;
    one[0].samples = {0};
    std::fill(one[0].starts.begin() + 6, one[0].starts.end(), 6);
    Values values = packed.parameters();
    if (family.family == Family::gpt2)  // the longer model has more positions
      values.at("embedding.position.weight").resize(static_cast<size_t>(6 * family.hidden_size));
    apart.load(values);
    const double expected = apart.backward(two);
    EXPECT_NEAR(packed.backward(one), expected, 1e-6 * expected);
    const Values gradients = apart.gradients();
    for (const auto& [name, found] : packed.gradients()) {
      if (found.size() == gradients.at(name).size()) {
        EXPECT_LT(distance(found, gradients.at(name)), 2e-5) << name;
      }
    }
  }
}

TEST(Step, WithoutAFiniteNormUpdatesNothing) {
  PipelineOptions options;
  options.model = small_gpt2();
  Pipeline pipeline(options);
  Values values = pipeline.parameters();
  values.at("layers.1.mlp.up.bias")[3] = std::numeric_limits<float>::infinity();
  pipeline.load(values);
  std::vector<HostBatch> batch = batches(options);
  pipeline.step(batch);
  EXPECT_FALSE(pipeline.result().applied);
  expect_same(pipeline.parameters(), values, "parameters after a bad step");
}

TEST(Step, ClipsToTheGlobalNorm) {
  PipelineOptions options;
  options.model = small_llama();
  Pipeline free(options);
  std::vector<HostBatch> batch = batches(options);
  free.backward(batch);
  double squares = 0;
  for (const auto& [name, values] : free.gradients())
    for (const float value : values) squares += static_cast<double>(value) * value;
  EXPECT_NEAR(free.result().gradient_norm, std::sqrt(squares), 1e-9 * std::sqrt(squares));
}

TEST(Nonfinite, IsNamedWhereItFirstAppears) {
  PipelineOptions options;
  options.model = small_gpt2();
  const auto search = [&](const std::string& name, float value) {
    Pipeline pipeline(options);
    Values values = pipeline.parameters();
    values.at(name)[0] = value;
    pipeline.load(values);
    std::vector<HostBatch> batch = batches(options);
    pipeline.step(batch);
    return model::NonfiniteSearch(pipeline.model(), pipeline.stream()).search(batch[0].band(false));
  };
  const auto parameter = search("layers.1.attention.qkv.bias", std::numeric_limits<float>::quiet_NaN());
  ASSERT_TRUE(parameter);
  EXPECT_EQ(parameter->unit, 3);
  EXPECT_EQ(parameter->unit_name, "attention_1");
  EXPECT_EQ(parameter->what, "parameter layers.1.attention.qkv.bias");
  EXPECT_EQ(parameter->count, 1);
  // Finite weights whose product is not.
  const auto output = search("layers.1.attention.qkv.weight", 3.3e38F);
  ASSERT_TRUE(output);
  EXPECT_EQ(output->unit_name, "attention_1") << output->what;
  EXPECT_EQ(output->what, "output");
  EXPECT_GT(output->count, 0);
  const auto backward = search("head.norm.weight", 3.3e38F);
  ASSERT_TRUE(backward);
  EXPECT_EQ(backward->unit_name, "head");
  EXPECT_EQ(backward->what, "loss");
  EXPECT_EQ(search("layers.0.mlp.down.bias", 1.0F), std::nullopt);
}

TEST(Stage, RefusesWhatItCannotDo) {
  PipelineOptions options;
  options.model = small_gpt2();
  Pipeline pipeline(options);
  model::Stage& stage = pipeline.model().stage(0);
  std::vector<HostBatch> batch = batches(options);
  model::SideBand band = batch[0].band(false);
  band.targets = Tensor();
  EXPECT_THROW(stage.forward(pipeline.stream(), {}, 0, band, model::Pass::training), UsageError);
  EXPECT_THROW(stage.forward(pipeline.stream(), {1, 0, 0}, 0, batch[0].band(false), model::Pass::training),
               UsageError);
  EXPECT_THROW(stage.backward_weight(pipeline.stream(), {0, 0, 1}), UsageError);
  EXPECT_THROW(stage.output(0), UsageError);
  EXPECT_THROW(stage.input({}), UsageError);
  EXPECT_THROW(stage.d_output({}), UsageError);
  EXPECT_THROW(stage.d_input(0), UsageError);
  EXPECT_THROW(stage.forward(pipeline.stream(), {}, 1, batch[0].band(false), model::Pass::training),
               UsageError);
}

TEST(RopeTable, ScalesFrequencies) {
  ModelSection model = small_llama();
  model.head_dim = 64;
  model.sequence_length = 3;
  model.rope_theta = 500000;
  const std::vector<float> plain = model::rope_table(model);
  ASSERT_EQ(plain.size(), 3U * 32U * 2U);
  EXPECT_EQ(plain[0], 1.0F);
  EXPECT_EQ(plain[1], 0.0F);
  EXPECT_FLOAT_EQ(plain[64], std::cos(1.0F));  // position 1, frequency 1
  const auto frequency = [](const std::vector<float>& table, size_t i) {
    return std::atan2(table[64 + 2 * i + 1], table[64 + 2 * i]);
  };
  EXPECT_NEAR(frequency(plain, 7) / std::pow(500000.0, -14.0 / 64), 1, 1e-6);
  model.rope_scaling = RopeScaling{RopeScalingType::linear, 4.0, 1, 4, 8192};
  EXPECT_NEAR(frequency(model::rope_table(model), 7) / frequency(plain, 7), 0.25, 1e-6);
  // Llama 3.1: short wave lengths stay, long ones are stretched eightfold, between them a smooth passage.
  model.rope_scaling = RopeScaling{RopeScalingType::llama3, 8.0, 1, 4, 8192};
  const std::vector<float> llama3 = model::rope_table(model);
  EXPECT_NEAR(frequency(llama3, 10) / frequency(plain, 10), 1, 1e-6);
  EXPECT_NEAR(frequency(llama3, 31) / frequency(plain, 31), 0.125, 1e-5);
  // Channel 16: wave length 2π·500000^(1/2) = 4443, 8192 / 4443 = 1.8438, smooth = 0.8438 / 3.
  EXPECT_NEAR(frequency(llama3, 16) / frequency(plain, 16), (1 - 0.28127) / 8 + 0.28127, 1e-4);
}

}  // namespace
}  // namespace penstock::testing
