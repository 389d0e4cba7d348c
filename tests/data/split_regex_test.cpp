#include "data/split_regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_error.h"
#include "data/text_split.h"
#include "tests/data/temporary_folder.h"

namespace penstock::data {
namespace {

using testing::HasSubstr;
using tests::message_of;

using Chunks = std::vector<std::string>;

Chunks chunks(const std::string& pattern, std::string_view text) {
  const SplitPattern compiled(pattern);
  Chunks out;
  TextSplitter(compiled).split(text, [&](std::string_view chunk) { out.emplace_back(chunk); });
  return out;
}

std::string named(std::string_view name) {
  for (const NamedSplit& split : named_splits()) {
    if (split.name == name) return std::string(split.pattern);
  }
  return "";
}

TEST(SplitRegex, WhiteSpaceIsUnicodes) {
  EXPECT_EQ(chunks(R"(\s+)", "a \u2003\u0085b\u180ec"), (Chunks{"a", " \u2003\u0085", "b\u180ec"}));
  EXPECT_EQ(chunks(R"(\S+)", "a\u180e \u00a0b"), (Chunks{"a\u180e", " \u00a0", "b"}));
  EXPECT_EQ(chunks(R"([^\sx]+)", "ax\u3000b\u180e"), (Chunks{"a", "x\u3000", "b\u180e"}));
  EXPECT_EQ(pcre2_split_pattern(gpt2_split_pattern), gpt2_split_pattern);
}

TEST(SplitRegex, NamedSplitsAreTheirVocabularies) {
  const std::string text = "We'LL pay 12345 \u00c0\u00c9tat\n\n  x/\n ";
  EXPECT_EQ(chunks(named("gpt2"), text),
            (Chunks{"We", "'", "LL", " pay", " 12345", " \u00c0\u00c9tat", "\n\n ", " x", "/", "\n "}));
  EXPECT_EQ(chunks(named("llama3"), text), (Chunks{"We", "'LL", " pay", " ", "123", "45", " \u00c0\u00c9tat",
                                                   "\n\n", " ", " x", "/\n", " "}));
  EXPECT_EQ(chunks(named("qwen2"), "a 123"), (Chunks{"a", " ", "1", "2", "3"}));
  EXPECT_EQ(chunks(named("o200k"), "We'LL parseJSONFile x/\n/y"),
            (Chunks{"We'LL", " parse", "JSONFile", " x", "/\n/", "y"}));
  EXPECT_EQ(chunks(named("cl100k"), "a\n  b\n  "), (Chunks{"a", "\n", " ", " b", "\n  "}))
      << "white space at the very end is one chunk";
  EXPECT_EQ(chunks(named("llama3"), "a\n  b\n  "), (Chunks{"a", "\n", " ", " b", "\n", "  "}));
}

TEST(SplitRegex, RefusesWhatIsReadInTwoWays) {
  for (const auto& [pattern, says] :
       std::vector<std::pair<std::string, std::string>>{{"a$", "`$`"},
                                                        {"^a", "`^`"},
                                                        {"a.b", "`.`"},
                                                        {R"(\w+)", "`\\w`"},
                                                        {R"(\bx)", "`\\b`"},
                                                        {R"(\h)", "`\\h`"},
                                                        {R"((a)\1)", "`\\1`"},
                                                        {R"([[:alpha:]])", "`[`"},
                                                        {"[a&&b]", "`&&`"},
                                                        {R"([\S])", "`\\S`"},
                                                        {R"(\p{N}{1,3}+)", "`+`"},
                                                        {"a{,3}", "repeat"},
                                                        {"(?<n>a)", "`(?<n`"},
                                                        {"(?x)a", "`(?x)`"},
                                                        {"(*UTF)a", "`(*`"},
                                                        {"[ab", "class"},
                                                        {R"(\pL)", "property"},
                                                        {R"(a\)", "at the end"},
                                                        {"[]a]", "`]`"},
                                                        {R"(\x4)", "`\\x`"}}) {
    EXPECT_THAT(message_of<DataError>([&] { pcre2_split_pattern(pattern); }), HasSubstr(says)) << pattern;
  }
}

}  // namespace
}  // namespace penstock::data
