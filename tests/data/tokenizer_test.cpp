#include "data/tokenizer.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/bpe_trainer.h"
#include "data/byte_alphabet.h"
#include "data/data_error.h"
#include "data/encoder.h"
#include "data/tokenizer_json.h"
#include "data/utf8.h"
#include "tests/data/temporary_folder.h"

namespace penstock::data {
namespace {

using testing::HasSubstr;
using tests::get_file;
using tests::message_of;
using tests::TemporaryFolder;

std::string fixture(const std::string& name) {
  return std::string(PENSTOCK_FIXTURES) + "/" + name;
}

const Tokenizer& reference() {
  static const Tokenizer tokenizer = load_tokenizer(fixture("hf_tokenizer.json"));
  return tokenizer;
}

std::vector<std::string> chunks(std::string_view text) {
  static const SplitPattern pattern(gpt2_split_pattern);
  std::vector<std::string> out;
  TextSplitter(pattern).split(text, [&](std::string_view chunk) { out.emplace_back(chunk); });
  return out;
}

TEST(TextSplitter, SplitsAsGpt2Does) {
  using Chunks = std::vector<std::string>;
  EXPECT_EQ(chunks(""), Chunks{});
  EXPECT_EQ(chunks("Hello  world's 12ab!?\n"),
            (Chunks{"Hello", " ", " world", "'s", " 12", "ab", "!?", "\n"}));
  EXPECT_EQ(chunks("a \n\n b"), (Chunks{"a", " \n\n", " b"}));
  EXPECT_EQ(chunks("we'll they'LL"), (Chunks{"we", "'ll", " they", "'", "LL"}));
  EXPECT_EQ(chunks("caf\u00e9\u00a0\u4e2d"), (Chunks{"caf\u00e9", "\u00a0", "\u4e2d"}));
  EXPECT_EQ(chunks("x\u180e "), (Chunks{"x", "\u180e", " "})) << "U+180E is no white space";
}

TEST(TextSplitter, KeepsInvalidUtf8Apart) {
  using Chunks = std::vector<std::string>;
  EXPECT_EQ(chunks("ab\xff\xfe"
                   "cd"),
            (Chunks{"ab", "\xff\xfe", "cd"}));
  EXPECT_EQ(chunks("\xe4\xb8"), (Chunks{"\xe4\xb8"})) << "a character cut short";
  EXPECT_EQ(chunks("\xed\xa0\x80"), (Chunks{"\xed\xa0\x80"})) << "a surrogate";
}

TEST(TextSplitter, CutsVeryLongChunks) {
  const std::string word(TextSplitter::max_chunk_bytes * 2 + 5, 'a');
  std::vector<size_t> sizes;
  for (const std::string& chunk : chunks(word)) sizes.push_back(chunk.size());
  EXPECT_EQ(sizes, (std::vector<size_t>{TextSplitter::max_chunk_bytes, TextSplitter::max_chunk_bytes, 5}));
}

TEST(SplitPattern, RefusesWhatIsNoPattern) {
  EXPECT_THAT(message_of<DataError>([] { SplitPattern pattern("(a"); }), HasSubstr("split pattern `(a`"));
}

TEST(Utf8, AgreesWithTheStandardOnEveryTwoAndThreeBytePrefix) {
  // Counted by the ranges of Unicode's table 3-7.
  int two = 0;
  int three = 0;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string pair{static_cast<char>(a), static_cast<char>(b)};
      if (utf8_character(pair) == 2) ++two;
      for (int c = 0; c < 256; ++c) {
        if (utf8_character(pair + static_cast<char>(c)) == 3) ++three;
      }
    }
  }
  EXPECT_EQ(two, 0x800 - 0x80);
  EXPECT_EQ(three, 0x10000 - 0x800 - 0x800);
  for (const char32_t code : {U'a', U'\u00e9', U'\u4e2d', U'\U0001F642', U'\U0010FFFF'}) {
    std::string text;
    append_utf8(code, text);
    EXPECT_EQ(utf8_character(text), text.size());
    EXPECT_EQ(decode_utf8(text), code);
  }
  EXPECT_EQ(utf8_character("\xf4\x90\x80\x80"), 0u);
}

TEST(ByteAlphabet, IsABijection) {
  std::string all;
  for (int value = 0; value < 256; ++value) all.push_back(static_cast<char>(value));
  EXPECT_EQ(from_byte_alphabet(to_byte_alphabet(all)), all);
  EXPECT_EQ(to_byte_alphabet(" \n!"), "\u0120\u010a!");
  EXPECT_EQ(from_byte_alphabet(" "), std::nullopt);
  EXPECT_EQ(from_byte_alphabet("\u0144"), std::nullopt);
  EXPECT_EQ(from_byte_alphabet("\xff"), std::nullopt);
}

TEST(Encoder, AgreesWithHuggingFace) {
  const auto expected = nlohmann::json::parse(get_file(fixture("hf_expected.json")));
  ASSERT_GT(expected.size(), 15u);
  Encoder encoder(reference());
  for (const auto& row : expected) {
    const auto text = row.at("text").get<std::string>();
    EXPECT_EQ(encoder.encode(text, SpecialText::recognised), row.at("ids").get<std::vector<int32_t>>())
        << text;
  }
}

TEST(Encoder, DecodingGivesTheTextBackForAnyBytes) {
  Encoder encoder(reference());
  std::mt19937_64 random(11);
  const std::string sample = get_file(fixture("sample.txt"));
  for (int round = 0; round < 600; ++round) {
    std::string text;
    const size_t length = random() % 300;
    for (size_t i = 0; i < length; ++i) {
      if (round % 3 == 0) {
        text.push_back(static_cast<char>(random()));
      } else if (round % 3 == 1) {
        text.push_back(" \n'sab1.\xc3\xa9\xe4"[random() % 11]);
      } else {
        text += sample.substr(random() % sample.size(), random() % 8);
      }
    }
    for (const SpecialText special : {SpecialText::plain, SpecialText::recognised}) {
      ASSERT_EQ(reference().decode(encoder.encode(text, special)), text);
    }
  }
}

TEST(Encoder, TakesSpecialTextAsTextUnlessAsked) {
  Encoder encoder(reference());
  const std::string text = "a<|endoftext|><|endoftext|>b<|endoftext";
  const auto plain = encoder.encode(text);
  EXPECT_THAT(plain, testing::Not(testing::Contains(*reference().end_of_text())));
  const auto special = encoder.encode(text, SpecialText::recognised);
  EXPECT_EQ(std::count(special.begin(), special.end(), *reference().end_of_text()), 2);
  EXPECT_EQ(reference().decode(special), text);
}

// The definition, in quadratic time: merge the leftmost pair of lowest rank until there is none.
std::vector<int32_t> merge_by_definition(const Tokenizer& tokenizer, std::string_view chunk) {
  std::vector<int32_t> tokens;
  for (const char byte : chunk) tokens.push_back(tokenizer.byte_token(static_cast<uint8_t>(byte)));
  for (;;) {
    size_t best = tokens.size();
    const Tokenizer::Merged* merged = nullptr;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const Tokenizer::Merged* found = tokenizer.merge_of({tokens[i], tokens[i + 1]});
      if (found != nullptr && (merged == nullptr || found->rank < merged->rank)) {
        merged = found;
        best = i;
      }
    }
    if (merged == nullptr) return tokens;
    tokens[best] = merged->token;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Encoder, MergesByTheDefinition) {
  Encoder encoder(reference());
  std::mt19937_64 random(5);
  for (int round = 0; round < 400; ++round) {
    std::string word;
    for (size_t i = random() % 120 + 2; i > 0; --i) word.push_back("abcnaispthe"[random() % 11]);
    ASSERT_EQ(encoder.encode(word), merge_by_definition(reference(), word)) << word;
  }
}

TEST(Encoder, IsFastOnOneLongWord) {
  Encoder encoder(reference());
  const std::string word(1 << 20, 'a');
  EXPECT_EQ(reference().decode(encoder.encode(word)), word);
}

TEST(BpeTrainer, MakesTheMergesOfHuggingFace) {
  BpeOptions options;
  options.vocabulary = reference().size();
  BpeTrainer trainer(options);
  trainer.add_text(get_file(fixture("sample.txt")));
  const Tokenizer trained(trainer.train());
  EXPECT_EQ(trained.vocabulary().tokens, reference().vocabulary().tokens);
  EXPECT_EQ(trained.vocabulary().merges, reference().vocabulary().merges);
  EXPECT_EQ(trained.fingerprint(), reference().fingerprint());
}

TEST(BpeTrainer, DoesNotDependOnThePiecesOfText) {
  const std::string text = get_file(fixture("sample.txt"));
  BpeOptions options;
  options.vocabulary = 400;
  BpeTrainer whole(options);
  whole.add_text(text);
  BpeTrainer pieces(options);
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(at + 100, text.size());
    while (end < text.size() &&
           !(std::isalpha(static_cast<unsigned char>(text[end - 1])) && text[end] == ' '))
      ++end;
    pieces.add_text(std::string_view(text).substr(at, end - at));
    at = end;
  }
  EXPECT_EQ(whole.train().merges, pieces.train().merges);
  EXPECT_EQ(pieces.bytes_seen(), text.size());
}

TEST(BpeTrainer, StopsWhenNoPairIsLeft) {
  BpeOptions options;
  options.vocabulary = 5000;
  BpeTrainer trainer(options);
  trainer.add_text("abab abab");
  const Vocabulary vocabulary = trainer.train();
  EXPECT_EQ(vocabulary.merges.size(), 2u);  // ab, abab; " abab" occurs once
  EXPECT_EQ(vocabulary.tokens.back(), "abab");
  BpeTrainer empty(options);
  EXPECT_EQ(empty.train().tokens.size(), 257u);
}

TEST(BpeTrainer, RefusesAVocabularyWithoutRoomForTheBytes) {
  BpeOptions options;
  options.vocabulary = 256;
  EXPECT_THAT(message_of<DataError>([&] { BpeTrainer trainer(options); }),
              HasSubstr("found 256, expected at least 257"));
}

TEST(Tokenizer, DecodingRefusesForeignIds) {
  const std::vector<int32_t> tokens{3, 400};
  EXPECT_THAT(message_of<DataError>([&] { reference().decode(tokens); }), HasSubstr("token id 400"));
  const std::vector<int32_t> negative{-1};
  EXPECT_THROW(reference().decode(negative), DataError);
}

}  // namespace
}  // namespace penstock::data
