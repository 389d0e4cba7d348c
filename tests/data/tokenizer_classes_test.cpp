// Tokenizers of Llama 3's, Qwen's and o200k's kinds against what Hugging Face's library gives
// (fixtures/make_tokenizer_classes.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "data/encoder.h"
#include "data/tokenizer_json.h"
#include "tests/data/temporary_folder.h"

namespace penstock::data {
namespace {

using nlohmann::json;
using tests::get_file;

std::string fixture(const std::string& name) {
  return std::string(PENSTOCK_FIXTURES) + "/" + name;
}

const json& expected() {
  static const json root = json::parse(get_file(fixture("tokenizer_classes.json")));
  return root;
}

class TokenizerClass : public testing::TestWithParam<const char*> {
 protected:
  Tokenizer load() const { return load_tokenizer(fixture(std::string("tokenizer_") + GetParam() + ".json")); }
};

void expect_library_tokens(const Tokenizer& tokenizer, const json& ids) {
  Encoder encoder(tokenizer);
  const json& texts = expected()["texts"];
  ASSERT_GT(texts.size(), 100U);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto text = texts[i].get<std::string>();
    EXPECT_EQ(encoder.encode(text, SpecialText::recognised), ids["recognised"][i].get<std::vector<int32_t>>())
        << texts[i];
    EXPECT_EQ(encoder.encode(text, SpecialText::plain), ids["plain"][i].get<std::vector<int32_t>>())
        << texts[i];
    // From the cache the same.
    EXPECT_EQ(encoder.encode(text, SpecialText::plain), ids["plain"][i].get<std::vector<int32_t>>());
    if (!tokenizer.vocabulary().nfc) {
      EXPECT_EQ(tokenizer.decode(encoder.encode(text)), text);
    }
  }
}

TEST_P(TokenizerClass, EncodesAsTheLibraryDoes) {
  const Tokenizer tokenizer = load();
  const json& ids = expected()[GetParam()];
  expect_library_tokens(tokenizer, ids);
  const auto begin = tokenizer.begin_of_text();
  EXPECT_EQ(begin ? std::vector<int32_t>{*begin} : std::vector<int32_t>{},
            ids["begin"].get<std::vector<int32_t>>());
}

TEST_P(TokenizerClass, SavingAndLoadingChangesNothing) {
  const Tokenizer first = load();
  const Tokenizer second = parse_tokenizer(tokenizer_json(first), "saved");
  EXPECT_EQ(second.fingerprint(), first.fingerprint());
  EXPECT_EQ(second.vocabulary().special, first.vocabulary().special);
  EXPECT_EQ(second.begin_of_text(), first.begin_of_text());
  EXPECT_EQ(second.vocabulary().nfc, first.vocabulary().nfc);
  expect_library_tokens(second, expected()[GetParam()]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerClass, testing::Values("llama3", "qwen2", "o200k"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(TokenizerClasses, HaveWhatTheirFilesSay) {
  const Tokenizer llama = load_tokenizer(fixture("tokenizer_llama3.json"));
  EXPECT_TRUE(llama.vocabulary().ignore_merges);
  EXPECT_EQ(llama.end_of_text(), llama.begin_of_text().value() + 1) << "Llama 3's <|end_of_text|>";
  const Tokenizer qwen = load_tokenizer(fixture("tokenizer_qwen2.json"));
  EXPECT_TRUE(qwen.vocabulary().nfc);
  EXPECT_FALSE(qwen.begin_of_text());
  Encoder encoder(qwen);
  EXPECT_EQ(encoder.encode("<tool_call>").size(), 1U) << "a word, which any text may have";
  EXPECT_GT(encoder.encode("<|im_start|>").size(), 1U) << "a sign, which text only spells";
  EXPECT_EQ(qwen.decode(encoder.encode("e\u0301\xff\u1100\u1161")), "\u00e9\xff\uac00")
      << "bytes that are not UTF-8 stay between texts that are composed";
}

}  // namespace
}  // namespace penstock::data
