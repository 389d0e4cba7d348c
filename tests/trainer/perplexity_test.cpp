#include "trainer/perplexity.h"

#include <cmath>
#include <numbers>

#include <gmock/gmock.h>

#include "data/bpe_trainer.h"
#include "data/data_error.h"
#include "data/encoder.h"
#include "data/tokenizer_json.h"
#include "kernels/device/error.h"
#include "tests/trainer/tiny_training.h"
#include "trainer/inference.h"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(Windows, CoverEveryTokenButTheFirst) {
  EXPECT_EQ(window_count(2, 16, {16, std::nullopt}), 1);
  EXPECT_EQ(window_count(17, 16, {16, std::nullopt}), 1);
  EXPECT_EQ(window_count(18, 16, {16, std::nullopt}), 2);
  EXPECT_EQ(window_count(33, 16, {16, std::nullopt}), 2);
  EXPECT_EQ(window_count(33, 16, {4, std::nullopt}), 5);
  EXPECT_EQ(window_count(34, 16, {4, std::nullopt}), 6);
  EXPECT_EQ(window_count(34, 16, {4, 3}), 3);
  EXPECT_THROW(window_count(34, 16, {17, std::nullopt}), UsageError);
  EXPECT_THROW(window_count(34, 16, {0, std::nullopt}), UsageError);
}

struct PerplexityTest : TrainingTest {
  Perplexity measured(const Job& job, const std::string& file, const WindowOptions& windows) const {
    Perplexity found;
    transport::run_inproc(
        static_cast<int>(job.parallel.pipeline * job.parallel.data), {}, [&](transport::World& world) {
          const transport::AbortOnUnwind abort(world);
          Inference model = open_inference(job, "", world, false);
          const EvaluationText text(file, model.job, model.tokenizer.get(), world, true);
          const Perplexity mine =
              measure_perplexity(*model.engine, world, text, model.tokenizer.get(), model.job, windows);
          if (world.rank() == 0) found = mine;
        });
    return found;
  }
};

// Each token once, whatever the stride, micro-batches and replicas; more of what came before makes it
// likelier.
TEST_F(PerplexityTest, CountsEveryTokenOnce) {
  ASSERT_EQ(train(job("run", {"run.steps=60"}), {}), ExitCode::finished);
  const std::string file = (root / "validation").string();
  const Perplexity whole = measured(job("run"), file, {16, std::nullopt});
  EXPECT_EQ(whole.tokens, 599);
  EXPECT_EQ(whole.windows, 38);
  EXPECT_FALSE(whole.bytes.has_value());
  const Perplexity fine = measured(job("run"), file, {4, std::nullopt});
  EXPECT_EQ(fine.tokens, 599);
  EXPECT_EQ(fine.windows, 147);
  EXPECT_LT(fine.loss(), whole.loss());
  for (const std::vector<std::string>& layout : {std::vector<std::string>{"parallel.pipeline=2"},
                                                 {"parallel.pipeline=2", "parallel.data=2"},
                                                 {"batch.micro=4"}}) {
    const Perplexity found = measured(job("run", layout), file, {16, std::nullopt});
    EXPECT_EQ(found.tokens, 599) << layout.front();
    EXPECT_NEAR(found.nats, whole.nats, 1e-6 * whole.nats) << layout.front();
  }
  EXPECT_EQ(measured(job("run"), file, {16, 3}).tokens, 48);
  const Perplexity masked = measured(job("run", {"data.document_mask=true"}), file, {16, std::nullopt});
  EXPECT_EQ(masked.tokens, 599 - 6) << "six documents begin behind others";
}

TEST_F(PerplexityTest, ReadsTextsWithTheTokenizer) {
  data::BpeTrainer trainer({.vocabulary = 300});
  const std::string words = "So many words, so few that matter: words, words, words. Ça va — ende\n";
  trainer.add_text(words);
  const data::Tokenizer tokenizer(trainer.train());
  const std::string tokenizer_file = (root / "tokenizer.json").string();
  data::save_tokenizer(tokenizer, tokenizer_file);
  const std::vector<int32_t> tokens = data::Encoder(tokenizer).encode(words);
  const int32_t end = *tokenizer.end_of_text();
  // The same as a token file, with the token that ends a document in front.
  data::TokenWriter writer((root / "same").string(), tokenizer.size(), tokenizer.fingerprint());
  writer.add(std::vector<int32_t>{end});
  writer.add(tokens);
  writer.add(std::vector<int32_t>{end});
  writer.end_document();
  writer.finish();
  std::ofstream(root / "words.txt") << words;
  std::ofstream(root / "words.jsonl") << nlohmann::json{{"text", words}}.dump() << "\n";
  const std::vector<std::string> settings{"data.tokenizer=" + tokenizer_file, "model.vocab_size=300",
                                          "data.train=[\"" + (root / "same").string() + "\"]",
                                          "data.validation=\"" + (root / "same").string() + "\"",
                                          "run.steps=3"};
  ASSERT_EQ(train(job("run", settings), {}), ExitCode::finished);
  const Perplexity expected = measured(job("run", settings), (root / "same").string(), {16, std::nullopt});
  EXPECT_EQ(expected.tokens, static_cast<int64_t>(tokens.size()) + 1);
  ASSERT_TRUE(expected.bytes.has_value());
  EXPECT_EQ(*expected.bytes, static_cast<int64_t>(words.size()));
  EXPECT_NEAR(*expected.bits_per_byte(),
              expected.nats / std::numbers::ln2 / static_cast<double>(words.size()), 1e-12);
  for (const char* file : {"words.txt", "words.jsonl", "same.bin"}) {
    const Perplexity found = measured(job("run", settings), (root / file).string(), {16, std::nullopt});
    EXPECT_EQ(found.nats, expected.nats) << file;
    EXPECT_EQ(found.bytes, expected.bytes) << file;
  }
  std::vector<std::string> two = settings;
  two.emplace_back("parallel.pipeline=2");
  EXPECT_EQ(measured(job("run", two), (root / "words.txt").string(), {16, std::nullopt}).nats, expected.nats);
}

TEST_F(PerplexityTest, NamesWhatCannotBeRead) {
  ASSERT_EQ(train(job("run"), {}), ExitCode::finished);
  std::ofstream(root / "words.txt") << "words";
  const auto refusal = [&](const std::string& file) {
    try {
      measured(job("run"), (root / file).string(), {16, std::nullopt});
    } catch (const data::DataError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(refusal("words.txt"), HasSubstr("data.tokenizer"));
  EXPECT_THAT(refusal("none.bin"), HasSubstr("none"));
}

}  // namespace
}  // namespace penstock
