#include "data/ordered_encoder.h"

#include <random>

#include <gtest/gtest.h>

#include "data/encoder.h"
#include "data/tokenizer_json.h"

namespace penstock::data {
namespace {

TEST(OrderedEncoder, GivesEachTextsTokensInOrder) {
  const Tokenizer tokenizer = load_tokenizer(std::string(PENSTOCK_FIXTURES) + "/hf_tokenizer.json");
  Encoder one(tokenizer);
  std::mt19937_64 random(4);
  std::vector<std::string> texts;
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    for (size_t words = random() % (i % 500 == 0 ? 90000 : 40); words > 0; --words) text += " fox jumps\n";
    texts.push_back(text + std::to_string(i));
  }
  texts[7].clear();
  for (const size_t threads : {1U, 2U, 5U}) {
    size_t taken = 0;
    OrderedEncoder encoder(tokenizer, threads, [&](std::span<const int32_t> tokens, uint64_t tag) {
      ASSERT_EQ(tag, taken * 3);
      const std::vector<int32_t> expected = one.encode(texts[taken++]);
      EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), expected.begin(), expected.end()));
    });
    for (size_t i = 0; i < texts.size(); ++i) encoder.add(texts[i], i * 3);
    encoder.finish();
    EXPECT_EQ(taken, texts.size());
  }
}

TEST(OrderedEncoder, EndsWithWorkUnderWay) {
  const Tokenizer tokenizer = load_tokenizer(std::string(PENSTOCK_FIXTURES) + "/hf_tokenizer.json");
  OrderedEncoder encoder(tokenizer, 3, [](std::span<const int32_t> /*tokens*/, uint64_t /*tag*/) {});
  const std::string text(OrderedEncoder::batch_bytes, 'a');
  for (int i = 0; i < 5; ++i) encoder.add(text, 0);
}

}  // namespace
}  // namespace penstock::data
