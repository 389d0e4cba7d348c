#include "data/tiktoken.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_error.h"
#include "data/encoder.h"
#include "data/tokenizer_json.h"
#include "tests/data/temporary_folder.h"

namespace penstock::data {
namespace {

using testing::HasSubstr;
using tests::message_of;

std::string base64(const std::string& bytes) {
  static const std::string signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) {
      bits = (bits << 8) | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    }
    for (size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : signs[(bits >> (18 - 6 * k)) & 63];
  }
  return out;
}

// The bytes in order, then these.
std::string ranks(const std::vector<std::string>& more) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    text += base64(std::string(1, static_cast<char>(byte))) + " " + std::to_string(byte) + "\n";
  }
  for (size_t i = 0; i < more.size(); ++i) text += base64(more[i]) + " " + std::to_string(256 + i) + "\n";
  return text;
}

TEST(Tiktoken, MergesEveryPairThatIsAToken) {
  const Tokenizer tokenizer(
      parse_tiktoken(ranks({"ab", "bc", "abc", "cd", "xyzzy"}), "r", "cl100k", {{263, "<|endoftext|>"}}));
  Encoder encoder(tokenizer);
  EXPECT_EQ(encoder.encode("abc"), std::vector<int32_t>{258});
  EXPECT_EQ(encoder.encode("abcd"), (std::vector<int32_t>{258, 'd'})) << "rank 258 goes before 259";
  EXPECT_EQ(encoder.encode("xyzzy"), std::vector<int32_t>{260}) << "which no merges make";
  EXPECT_EQ(tokenizer.size(), 264);
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{261, 262}), "<|unused_261|><|unused_262|>");
  EXPECT_EQ(tokenizer.end_of_text(), 263);
  const Tokenizer again = parse_tokenizer(tokenizer_json(tokenizer), "json");
  EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(Encoder(again).encode("abcd xyzzy"), encoder.encode("abcd xyzzy"));
}

TEST(Tiktoken, RefusesWhatIsNoRankFile) {
  const auto refuses = [](const std::string& text, const std::string& says,
                          std::vector<SpecialToken> special = {}) {
    EXPECT_THAT(message_of<DataError>([&] { Tokenizer(parse_tiktoken(text, "r", "gpt2", special), "r"); }),
                testing::AllOf(testing::StartsWith("r"), HasSubstr(says)));
  };
  refuses("", "no token");
  refuses(ranks({}) + "YWI\n", "line 257");
  refuses(ranks({}) + "YW== 256x\n", "line 257");
  refuses(ranks({}) + "Y?== 256\n", "line 257");
  refuses(ranks({}) + "YWI= -3\n", "id -3");
  refuses(ranks({}) + "YWI= 7\n", "id 7 twice");
  refuses(ranks({}) + "YQ== 256\n", "second time");
  refuses(ranks({}) + "YWI= 99999\n", "large gaps");
  refuses(ranks({"ab"}), "id 256 twice", {{256, "<|x|>"}});
  refuses("YWI= 0\n", "no token for byte");
}

}  // namespace
}  // namespace penstock::data
