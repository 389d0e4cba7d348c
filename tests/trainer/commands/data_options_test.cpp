// Options of `data prepare` that go with some inputs only, and texts that are not Unicode.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/trainer/commands/data_commands.h"

namespace penstock::commands {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tests::put_file;

TEST_F(DataCommands, AnOptionThatNoInputHeedsIsRefused) {
  put_file(folder_ / "a.jsonl", "{\"text\": \"one\"}\n");
  const Outcome separator = prepare("a.jsonl", "x", {"--document-separator", "file"});
  EXPECT_EQ(separator.status, 3);
  EXPECT_THAT(separator.error, AllOf(HasSubstr("a.jsonl: found JSON lines, a document each"),
                                     HasSubstr("leave --document-separator out")));
  EXPECT_EQ(prepare("text.txt", "x", {"--json-lines", "--document-separator", "line"}).status, 3);
  // Where there is a text beside it, it is about that one.
  EXPECT_EQ(prepare("a.jsonl", "x", {"--input", folder_ / "text.txt", "--document-separator", "line"}).status,
            0);
  const Outcome invalid = prepare("text.txt", "x", {"--invalid", "skip"});
  EXPECT_EQ(invalid.status, 3);
  EXPECT_THAT(invalid.error, AllOf(HasSubstr("a text, as all inputs are, of which every byte is kept"),
                                   HasSubstr("leave --invalid out")));
  EXPECT_EQ(prepare("a.jsonl", "x", {"--invalid", "keep"}).status, -1);
}

TEST_F(DataCommands, StandardInputIsReadOnce) {
  const Outcome twice = run({"data", "prepare", "--tokenizer", folder_ / "tok.json", "--output",
                             folder_ / "x", "--input", "-", "-"});
  EXPECT_EQ(twice.status, 3);
  EXPECT_THAT(twice.error, HasSubstr("found standard input given twice, expected at most once"));
}

TEST_F(DataCommands, TextsThatAreNotUnicode) {
  put_file(folder_ / "odd.jsonl",
           "{\"text\": \"one\"}\n{\"text\": \"a\\ud800b\"}\n{\"text\": \"two\"}\n{\"text\": \"c\xff\xfe \"}\n"
           "{\"text\": \"\\ud83d\\ude00\"}\n");
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{}, std::vector<std::string>{"--invalid", "refuse"}}) {
    const Outcome refused = prepare("odd.jsonl", "x", how);
    EXPECT_EQ(refused.status, 3);
    EXPECT_THAT(refused.error, AllOf(HasSubstr("odd.jsonl:2: byte 16: found no JSON (column 18: "),
                                     HasSubstr("\\ud800"), HasSubstr("--invalid replace or skip")));
  }
  const Outcome replaced = prepare("odd.jsonl", "x", {"--invalid", "replace"});
  EXPECT_EQ(replaced.status, 0) << replaced.error;
  EXPECT_THAT(replaced.error, HasSubstr("odd.jsonl: 2 documents have text that is not Unicode, the first in "
                                        "line 2; U+FFFD stands for it"));
  EXPECT_EQ(
      tokens_as_text(folder_ / "x", folder_ / "tok.json"),
      "one<|endoftext|>a\uFFFDb<|endoftext|>two<|endoftext|>c\uFFFD <|endoftext|>\U0001F600<|endoftext|>");
  const Outcome skipped = prepare("odd.jsonl", "x", {"--invalid", "skip"});
  EXPECT_EQ(skipped.status, 0) << skipped.error;
  EXPECT_THAT(skipped.error, HasSubstr("the first in line 2; they are left out"));
  EXPECT_EQ(tokens_as_text(folder_ / "x", folder_ / "tok.json"),
            "one<|endoftext|>two<|endoftext|>\U0001F600<|endoftext|>");
  // What is no JSON at all is nothing to mend.
  put_file(folder_ / "broken.jsonl", "{\"text\": \"a\\ud800b\"}\n{\"text\": \"\\ud800\"\n");
  const Outcome broken = prepare("broken.jsonl", "x", {"--invalid", "skip"});
  EXPECT_EQ(broken.status, 3);
  EXPECT_THAT(broken.error,
              AllOf(HasSubstr("broken.jsonl:2: byte 21: found no JSON"), Not(HasSubstr("--invalid"))));
}

// A broken title costs no document whose text is good.
TEST_F(DataCommands, OnlyTheTextHasToBeUnicode) {
  put_file(folder_ / "odd.jsonl", "{\"text\": \"a\uFFFD\", \"title\": \"\\ud800\", \"\xff\": 1}\n");
  for (const char* how : {"replace", "skip"}) {
    const Outcome made = prepare("odd.jsonl", "x", {"--invalid", how});
    EXPECT_EQ(made.status, 0) << made.error;
    EXPECT_THAT(made.error, Not(HasSubstr("not Unicode")));
    EXPECT_EQ(tokens_as_text(folder_ / "x", folder_ / "tok.json"), "a\uFFFD<|endoftext|>");
  }
}

TEST_F(DataCommands, WhereAllTextsAreLeftOutTheErrorSaysSo) {
  put_file(folder_ / "odd.jsonl", "{\"text\": \"\\ud800\"}\n");
  const Outcome refused = prepare("odd.jsonl", "x", {"--invalid", "skip"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.error, AllOf(HasSubstr("found no text"), HasSubstr("they are left out")));
}

// The library repeats what it read of a string: of a long text that would be pages.
TEST_F(DataCommands, AnErrorInALongLineIsShort) {
  put_file(folder_ / "long.jsonl", "{\"text\": \"" + std::string(1'000'000, 'x') + "\\ud800\"}\n");
  const Outcome refused = prepare("long.jsonl", "x");
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.error, AllOf(HasSubstr("column 1000017"), HasSubstr("xxx\\ud800")));
  EXPECT_LT(refused.error.size(), 1000u);
}

TEST_F(DataCommands, InspectSaysThatThereAreNoTokens) {
  put_file(folder_ / "empty.bin", "");
  const std::string file = folder_ / "empty.bin";
  const Outcome shown = run({"data", "inspect", file, "--headerless", "uint16"});
  EXPECT_EQ(shown.status, 0) << shown.error;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("largest token  none, as it has no tokens"), Not(HasSubstr("-1"))));
  const auto object =
      nlohmann::json::parse(run({"data", "inspect", file, "--headerless", "uint16", "--json"}).out);
  EXPECT_TRUE(object["largest_token"].is_null());
  EXPECT_EQ(object["tokens"], 0);
}

}  // namespace
}  // namespace penstock::commands
