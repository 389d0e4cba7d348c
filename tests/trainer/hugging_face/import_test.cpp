// Imported models compute what transformers computes from them, and go on as runs.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/token_writer.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "tests/trainer/hugging_face/computed.h"
#include "tests/trainer/hugging_face/hf_folder.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/job/read_job.h"
#include "trainer/resume.h"
#include "trainer/training.h"

namespace penstock::hugging_face {
namespace {

using testing::HasSubstr;

// The largest difference, relative to the largest value.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return difference / scale;
}

struct Import : HuggingFaceTest, testing::WithParamInterface<const char*> {};

TEST_P(Import, ComputesWhatTransformersComputes) {
  const Expected expected = HuggingFaceTest::expected(GetParam());
  const ImportResult result = import_into("run", fixture(GetParam()));
  for (const std::string pipeline : {"1", "2"}) {
    const Job job =
        read_job(result.job, {"parallel.pipeline=" + pipeline, "batch.global=1", "precision.compute=fp32"});
    const Computed computed = compute(job, expected.tokens, expected.greedy.size());
    ASSERT_EQ(computed.logits.size(), expected.logits.size());
    ASSERT_GT(expected.logits.size(), 800U);
    EXPECT_LE(distance(computed.logits, expected.logits), 1e-5);
    EXPECT_EQ(computed.greedy, expected.greedy);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Import, fixture_names, name_of_fixture);

// The comparison above is no comparison of anything: what the fixtures are there to tell apart, it does.
struct Difference : HuggingFaceTest {
  double of(const std::string& name, const std::function<void(nlohmann::json&)>& change) const {
    const fs::path folder = copy(name);
    edit_json(folder / "config.json", change);
    const Job job = read_job(import_into("run", folder).job, {"batch.global=1", "precision.compute=fp32"});
    const Expected wanted = expected(name);
    return distance(compute(job, wanted.tokens, 0).logits, wanted.logits);
  }
};

TEST_F(Difference, OfTheRotaryScalingShows) {
  EXPECT_GT(
      of("llama-scaled", [](nlohmann::json& config) { config["rope_parameters"]["high_freq_factor"] = 2.0; }),
      1e-3);
}

TEST_F(Difference, OfTheNormsEpsilonShows) {
  EXPECT_GT(of("gpt2", [](nlohmann::json& config) { config["layer_norm_epsilon"] = 2e-3; }), 1e-4);
}

struct ImportedRun : HuggingFaceTest {
  void write_tokens() const {
    data::TokenWriter writer((root / "text").string(), 61, "");
    std::vector<int32_t> tokens(2000);
    for (size_t at = 0; at < tokens.size(); ++at) tokens[at] = static_cast<int32_t>(at * at % 61);
    writer.add(tokens);
    writer.end_document();
    writer.finish();
  }
  std::vector<std::string> overrides(std::vector<std::string> more) const {
    more.push_back(fmt::format("data.train=[\"{}\"]", (root / "text").string()));
    more.insert(more.end(),
                {"run.steps=3", "log.console=quiet", "batch.global=4", "learning_rate.warmup_steps=0"});
    return more;
  }
  static ExitCode train_alone(const Job& job) {
    ExitCode code = ExitCode::internal_error;
    transport::run_inproc(1, {}, [&](transport::World& world) { code = train(job, {}, world, nullptr); });
    return code;
  }
};

TEST_F(ImportedRun, TrainsAsAnyJobWithItsModel) {
  write_tokens();
  const ImportResult result = import_into("run", fixture("qwen2"));
  EXPECT_EQ(result.checkpoint, (root / "run/checkpoints/step-00000000").string());
  // The written job says batches of 8 and another rate: what is not the model is the user's.
  const Job job = read_job(result.job, overrides({"learning_rate.max=1e-2", "model.sequence_length=16"}));
  ASSERT_EQ(train_alone(job), ExitCode::finished);
  const auto trained = checkpoint::Checkpoint::open((root / "run/checkpoints/step-00000003").string(),
                                                    checkpoint::Depth::full);
  const auto imported = checkpoint::Checkpoint::open(result.checkpoint, checkpoint::Depth::full);
  EXPECT_EQ(trained.manifest().state.count(imported_state), 0U)
      << "from its first step on it is a run like any";
  float before = 0;
  float after = 0;
  imported.read("layers.0.attention.norm.weight", DType::fp32, 0, 1, &before);
  trained.read("layers.0.attention.norm.weight", DType::fp32, 0, 1, &after);
  EXPECT_NE(before, after);
  EXPECT_NEAR(before, after, 0.1) << "trained from the imported weights, not from new ones";
}

TEST_F(ImportedRun, OfAnotherModelIsRefused) {
  write_tokens();
  const ImportResult result = import_into("run", fixture("llama"));
  const Job job = read_job(result.job, overrides({"model.rope_theta=5e5"}));
  const std::string message = tests::message_of<ResumeError>([&] { train_alone(job); });
  EXPECT_THAT(message, HasSubstr("model.rope_theta: 10000.0 → 500000.0"));
  EXPECT_THAT(message, testing::Not(HasSubstr("batch.global")));
}

TEST_F(ImportedRun, TakesTheJobThatIsGiven) {
  write_tokens();
  const ImportResult first = import_into("first", fixture("gpt2"));
  std::ofstream(root / "mine.toml") << tests::get_file(first.job);
  ImportOptions options;
  options.job = (root / "mine.toml").string();
  const ImportResult second = import_into("second", fixture("gpt2"), options);
  EXPECT_EQ(second.job, options.job);
  EXPECT_FALSE(fs::exists(root / "second/job.toml")) << "there is one";
  Job job = read_job(options.job, overrides({"run.name=second"}));
  EXPECT_EQ(train_alone(job), ExitCode::finished);
}

TEST_F(ImportedRun, AJobOfAnotherModelIsRefusedKeyByKey) {
  const ImportResult first = import_into("first", fixture("gpt2"));
  std::string text = tests::get_file(first.job);
  text.replace(text.find("layers = 2"), 10, "layers = 3");
  text.replace(text.find("norm_epsilon = "), 15, "norm_epsilon = 1");
  std::ofstream(root / "mine.toml") << text;
  ImportOptions options;
  options.job = (root / "mine.toml").string();
  const std::string message = refusal(fixture("gpt2"), options);
  EXPECT_THAT(message, HasSubstr("model.layers: 3 → 2"));
  EXPECT_THAT(message, HasSubstr("model.norm_epsilon: 0.00012 → 2e-05"));
}

TEST_F(ImportedRun, ShorterSequencesTakeTheFirstPositions) {
  ImportOptions options;
  options.sequence_length = 20;
  const ImportResult result = import_into("run", fixture("gpt2"), options);
  const Job job = read_job(result.job, {"batch.global=1", "precision.compute=fp32"});
  EXPECT_EQ(job.model.sequence_length, 20);
  const Expected wanted = expected("gpt2");
  EXPECT_LE(distance(compute(job, wanted.tokens, 0).logits, wanted.logits), 1e-5);
  options.sequence_length = 33;
  EXPECT_THAT(refusal(fixture("gpt2"), options), HasSubstr("has learned 32 positions"));
}

TEST_F(ImportedRun, MayLieInTheWorkingDirectory) {
  const fs::path before = fs::current_path();
  fs::current_path(root);
  ImportOptions options;
  options.run = "here";
  const ImportResult result = import_model(fixture("gpt2").string(), options);
  const Job job = read_job(result.job, {});
  fs::current_path(before);
  EXPECT_EQ(job.run.folder, ".");
  EXPECT_EQ(job.run.name, "here");
}

TEST_F(ImportedRun, IsNeverReplaced) {
  import_into("run", fixture("gpt2"));
  EXPECT_THROW(import_into("run", fixture("gpt2")), ResumeError);
  fs::create_directories(root / "other");
  std::ofstream(root / "other/job.toml") << "a job";
  EXPECT_THROW(import_into("other", fixture("gpt2")), ResumeError);
  EXPECT_EQ(tests::get_file(root / "other/job.toml"), "a job");
}

}  // namespace
}  // namespace penstock::hugging_face
