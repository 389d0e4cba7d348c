#include "data/mended_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace penstock::data {
namespace {

const std::string replaced = "\uFFFD";

TEST(MendedJson, LeavesUnicodeAsItIs) {
  for (const char* text : {"", "{\"text\": \"a\\\\ud800 \\\" \\u00e9 \\ud83d\\ude00 \u00e9\U0001F600\"}",
                           "\\", "\\u12", "\\uzzzz", "\"\\\\\"", "\\\u00e9"}) {
    EXPECT_EQ(mended_json(text), text);
  }
}

TEST(MendedJson, HalfOfAPairIsReplaced) {
  EXPECT_EQ(mended_json("\\ud800"), replaced);
  EXPECT_EQ(mended_json("\\uDFFFx"), replaced + "x");
  EXPECT_EQ(mended_json("\\ud800\\ud801\\udc00"), replaced + "\\ud801\\udc00");
  EXPECT_EQ(mended_json("\\ud800\\u0041"), replaced + "\\u0041");
  EXPECT_EQ(mended_json("\\ud800\\n"), replaced + "\\n");
  EXPECT_EQ(mended_json("\\udc00\\ud800"), replaced + replaced);
  EXPECT_EQ(mended_json("\\\\\\ud800"), "\\\\" + replaced);
}

TEST(MendedJson, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(mended_json("a\xff\xfe z\xe2\x82"), "a" + replaced + " z" + replaced);
  EXPECT_EQ(mended_json("\xed\xa0\x80"), replaced) << "a surrogate in UTF-8's manner";
  EXPECT_EQ(mended_json("\\\xff"), "\\" + replaced);
}

TEST(MendedJson, ItsStringsAreJson) {
  const std::string broken = "{\"text\": \"a\\ud800\xff\\udc00\\ud83d\\ude00\"}";
  EXPECT_FALSE(nlohmann::json::accept(broken));
  EXPECT_EQ(nlohmann::json::parse(mended_json(broken))["text"], "a\uFFFD\uFFFD\uFFFD\U0001F600");
}

}  // namespace
}  // namespace penstock::data
