// Texts by keys and values that were kept against texts by the whole forward of every token.
#include "trainer/generation.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include <gmock/gmock.h>

#include "data/bpe_trainer.h"
#include "tests/trainer/generated_texts.h"
#include "tests/trainer/tiny_training.h"
#include "trainer/generated_text.h"
#include "trainer/inference.h"
#include "trainer/memory_limit.h"
#include "trainer/step_batches.h"

namespace penstock {
namespace {

struct GenerationTest : TrainingTest {
  // Many steps would do no more: what is compared is the same model's.
  Job trained(const std::string& name, const std::vector<std::string>& overrides = {}) const {
    const Job made = job(name, overrides);
    EXPECT_EQ(train(made, {}), ExitCode::finished);
    return made;
  }

  // The definition: the model sees the last sequence_length tokens, and all of them anew for every token.
  static Texts by_definition(const Job& asked, const Texts& prompts, int64_t count,
                             const TokenChoice& choice) {
    Texts texts(prompts.size());
    Job job = asked;
    job.batch.micro = job.batch.global = 1;
    transport::run_inproc(1, {}, [&](transport::World& world) {
      const transport::AbortOnUnwind abort(world);
      const Inference model = open_inference(job, "", world, true);
      const auto window = static_cast<size_t>(job.model.sequence_length);
      BatchSet set(model.job, 1, *model.backend.device);
      HostMicroBatch& batch = set.batches()[0];
      std::iota(batch.positions.begin(), batch.positions.end(), 0);
      TokenSampler sampler(choice, job.model.vocab_size);
      for (size_t text = 0; text < prompts.size(); ++text) {
        std::vector<int32_t> tokens = prompts[text];
        while (static_cast<int64_t>(texts[text].size()) < count) {
          const size_t seen = std::min(tokens.size(), window);
          std::copy(tokens.end() - static_cast<std::ptrdiff_t>(seen), tokens.end(), batch.tokens.begin());
          const auto logits = model.engine->logits(set.bands()[0], static_cast<int64_t>(seen) - 1);
          tokens.push_back(sampler.next(logits, text, tokens.size()));
          texts[text].push_back(tokens.back());
          if (tokens.back() == 7) break;
        }
      }
    });
    return texts;
  }
};

// A single token, several, as many as the model sees, and more; past the window too.
const Texts prompts{{5},
                    {1, 2, 3, 4, 5, 6},
                    {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9},
                    {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39}};

TEST_F(GenerationTest, TextsAreThoseOfTheDefinition) {
  TokenChoice greedy;
  greedy.temperature = 0;
  TokenChoice warm;
  warm.temperature = 0.7;
  warm.top_k = 20;
  warm.seed = 5;
  for (const auto& [name, overrides] : std::map<std::string, std::vector<std::string>>{
           {"gpt2", {"model.dropout=0.1"}},
           {"llama",
            {"model.family=llama", "model.kv_heads=2", "model.ffn_hidden_size=48", "model.qk_norm=true"}}}) {
    const Job made = trained(name, overrides);
    for (const TokenChoice& choice : {greedy, warm}) {
      const Texts expected = by_definition(made, prompts, 24, choice);
      for (const int64_t slots : {1, 2, 4})
        EXPECT_EQ(continued(made, prompts, 24, choice, slots), expected) << name;
    }
  }
}

TEST_F(GenerationTest, EveryLayoutAndBatchWritesTheSame) {
  trained("run");
  TokenChoice choice;
  choice.top_p = 0.9;
  const Texts expected = continued(job("run"), prompts, 30, choice, 1);
  EXPECT_NE(expected[0], expected[1]);
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"parallel.pipeline=2"},
        {"parallel.pipeline=2", "parallel.schedule=zbv", "parallel.chunks=2"},
        {"parallel.pipeline=3", "parallel.schedule=auto"},
        {"parallel.pipeline=2", "parallel.data=2", "parallel.sharded_optimizer=true"},
        {"parallel.pipeline=2", "parallel.schedule=2bw", "batch.micro=1"},
        {"parallel.threads=2"}}) {
    for (const int64_t slots : {1, 3}) {
      EXPECT_EQ(continued(job("run", layout), prompts, 30, choice, slots), expected)
          << layout.front() << ", " << slots << " at once";
    }
  }
}

TEST_F(GenerationTest, FiguresCountWhatWasComputed) {
  trained("run");
  GenerationFigures figures;
  TokenChoice choice;
  choice.temperature = 0;
  const Texts texts = continued(job("run"), {{5, 6}, {5, 6, 7, 8}}, 5, choice, 2, &figures);
  int64_t tokens = 0;
  for (const auto& text : texts) tokens += static_cast<int64_t>(text.size());
  EXPECT_EQ(figures.read_tokens, 6);
  EXPECT_EQ(figures.made_tokens, tokens - 2);  // the first of each comes from reading
  EXPECT_LE(figures.steps, 4);
  EXPECT_GE(figures.kept_tokens, 3 + 5);
}

TEST_F(GenerationTest, IsRefusedWhereItsMemoryIsNot) {
  trained("run");
  const Job narrow = job("run", {"parallel.memory_limit_gib=0.07"});
  transport::run_inproc(1, {}, [&](transport::World& world) {
    const GeneratingModel model = open_generation(narrow, nullptr, "", world, {1, 16});
    EXPECT_GT(model.memory.ranks[0].device.bytes(ArenaTag::activations), 0u);
    EXPECT_EQ(model.memory.ranks[0].device.bytes(ArenaTag::optimizer), 0u);
    try {
      open_generation(narrow, nullptr, "", world, {4096, 16});
      FAIL() << "4096 texts at once were accepted";
    } catch (const MemoryLimitError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("generate fewer texts at once (--batch, 4096 here)"));
    }
  });
}

// What is loaded to be evaluated has no memory for steps, and in bf16 no masters: the loss is that of the
// training's engine all the same.
TEST_F(GenerationTest, WhatTakesNoStepsHasNoMemoryForThem) {
  const Job made = trained("run");
  transport::run_inproc(1, {}, [&](transport::World& world) {
    const Inference model = open_inference(made, "", world, false);
    EXPECT_EQ(model.engine->rank().memory().plan().bytes(ArenaTag::gradients), 0u);
    EXPECT_EQ(model.engine->rank().memory().plan().bytes(ArenaTag::optimizer), 0u);
    EXPECT_TRUE(model.engine->rank().memory().unclaimed().empty());
  });
}

data::Tokenizer letters() {
  data::BpeTrainer trainer({.vocabulary = 257});
  return data::Tokenizer(trainer.train());
}

int32_t token_of(const data::Tokenizer& tokenizer, char letter) {
  return tokenizer.byte_token(static_cast<uint8_t>(letter));
}

TEST(GeneratedText, EndsBeforeTheFirstStopText) {
  const data::Tokenizer tokenizer = letters();
  const std::vector<std::string> stops{"end", "dd"};
  GeneratedText text(tokenizer, stops);
  std::string shown;
  const auto add = [&](char letter) {
    const bool stopped = text.add(token_of(tokenizer, letter));
    shown += text.take();
    return stopped;
  };
  for (const char letter : std::string("the en")) EXPECT_FALSE(add(letter));
  EXPECT_EQ(shown, "the ") << "what may be a stop text is not shown";
  EXPECT_FALSE(add('g'));
  EXPECT_EQ(shown, "the eng");
  EXPECT_FALSE(add('e'));
  EXPECT_FALSE(add('n'));
  EXPECT_TRUE(add('d'));
  EXPECT_EQ(shown, "the eng");
  EXPECT_EQ(text.bytes(), "the eng");
}

TEST(GeneratedText, WhatIsHeldBackIsShownAtTheEnd) {
  const data::Tokenizer tokenizer = letters();
  const std::vector<std::string> stops{"end"};
  GeneratedText text(tokenizer, stops);
  for (const char letter : std::string("been")) text.add(token_of(tokenizer, letter));
  text.add(100000);  // a model's vocabulary may be larger
  EXPECT_EQ(text.take(), "be");
  EXPECT_EQ(text.take_rest(), "en");
  EXPECT_EQ(text.take_rest(), "");
}

}  // namespace
}  // namespace penstock
