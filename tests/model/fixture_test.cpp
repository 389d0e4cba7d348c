// Agreement with an independent framework: loss, logits, every gradient, and every parameter after 20 steps
// of AdamW.
#include "tests/model/fixture.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/model/pipeline.h"

namespace penstock::testing {
namespace {

constexpr double bound = 2e-5;
using Fixture = std::map<std::string, FixtureTensor>;

std::vector<HostBatch> batch_of(const Fixture& fixture, const ModelSection& model, int64_t step) {
  const FixtureTensor& text = fixture.at("text");  // (steps, sequences, T + 1)
  std::vector<HostBatch> batches(1);
  for (int64_t sequence = 0; sequence < text.shape[1]; ++sequence) {
    for (int64_t t = 0; t < model.sequence_length; ++t) {
      const auto at = static_cast<size_t>((step * text.shape[1] + sequence) * text.shape[2] + t);
      batches[0].tokens.push_back(static_cast<int32_t>(text.values[at]));
      batches[0].targets.push_back(static_cast<int32_t>(text.values[at + 1]));
      batches[0].positions.push_back(static_cast<int32_t>(t));
    }
    batches[0].samples.push_back(sequence);
  }
  return batches;
}

// The first values: a padded vocabulary has more rows, which are 0.
std::vector<float> head(const std::vector<float>& values, size_t count) {
  for (size_t i = count; i < values.size(); ++i) EXPECT_EQ(values[i], 0.0F) << "padding at " << i;
  return {values.begin(), values.begin() + static_cast<int64_t>(std::min(count, values.size()))};
}

void expect_near(const Values& found, const Fixture& fixture, const std::string& kind) {
  size_t compared = 0;
  for (const auto& [name, tensor] : fixture) {
    if (name.rfind(kind + "/", 0) != 0) continue;
    const std::string parameter = name.substr(kind.size() + 1);
    ASSERT_TRUE(found.count(parameter)) << parameter;
    EXPECT_LE(relative_error(head(found.at(parameter), tensor.values.size()), tensor.values), bound) << name;
    ++compared;
  }
  EXPECT_EQ(compared, found.size());
}

class FixtureTest : public ::testing::TestWithParam<std::tuple<Family, Backend>> {};

TEST_P(FixtureTest, AgreesInLossLogitsGradientsAndTwentySteps) {
  const auto [family, backend] = GetParam();
  const std::string file = family == Family::gpt2 ? "/gpt2.fixture" : "/llama.fixture";
  const Fixture fixture = read_fixture(std::string(PENSTOCK_FIXTURES) + file);
  PipelineOptions options;
  options.model = family == Family::gpt2 ? small_gpt2() : small_llama();
  options.backend = backend;
  options.optimizer.epsilon = 1e-6;
  options.learning_rate = 1e-3;
  Pipeline pipeline(options);
  Values initial;
  for (const auto& [name, tensor] : fixture) {
    if (name.rfind("initial/", 0) == 0)
      initial[name.substr(8)] = {tensor.values.begin(), tensor.values.end()};
  }
  pipeline.load(initial);

  const std::vector<double>& losses = fixture.at("losses").values;
  const std::vector<double>& norms = fixture.at("norms").values;
  std::vector<HostBatch> first = batch_of(fixture, options.model, 0);
  EXPECT_NEAR(pipeline.evaluate(first), losses[0], bound * losses[0]);
  EXPECT_LE(relative_error(pipeline.logits(), fixture.at("logits").values), bound);
  pipeline.backward(first);
  expect_near(pipeline.gradients(), fixture, "gradient");
  for (int64_t step = 0; step < static_cast<int64_t>(losses.size()); ++step) {
    std::vector<HostBatch> batches = batch_of(fixture, options.model, step);
    const auto at = static_cast<size_t>(step);
    EXPECT_NEAR(pipeline.step(batches), losses[at], bound * losses[at]) << "step " << step;
    EXPECT_NEAR(pipeline.result().gradient_norm, norms[at], bound * norms[at]) << "step " << step;
    EXPECT_TRUE(pipeline.result().applied);
  }
  expect_near(pipeline.parameters(), fixture, "final");
}

INSTANTIATE_TEST_SUITE_P(All, FixtureTest,
                         ::testing::Combine(::testing::Values(Family::gpt2, Family::llama),
                                            ::testing::Values(Backend::reference, Backend::cpu)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) == Family::gpt2 ? "gpt2" : "llama") +
                                  (std::get<1>(test.param) == Backend::cpu ? "_cpu" : "_reference");
                         });

}  // namespace
}  // namespace penstock::testing
