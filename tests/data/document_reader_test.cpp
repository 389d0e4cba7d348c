#include "data/document_reader.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "data/data_error.h"
#include "tests/data/temporary_folder.h"

namespace penstock::data {
namespace {

using testing::HasSubstr;
using tests::message_of;
using tests::put_file;
using tests::TemporaryFolder;
using Texts = std::vector<std::string>;

// The documents that are not empty; `pieces` counts the pieces.
Texts documents(const std::string& path, DocumentSeparator separator, int* pieces = nullptr) {
  DocumentReader reader(path, separator);
  Texts out;
  std::string open;
  while (const auto piece = reader.next()) {
    open += piece->text;
    if (pieces != nullptr) ++*pieces;
    if (!piece->ends_document) continue;
    if (!open.empty()) out.push_back(open);
    open.clear();
  }
  EXPECT_TRUE(open.empty()) << "every document is ended";
  return out;
}

Texts documents_of(const std::string& text, DocumentSeparator separator) {
  const TemporaryFolder folder;
  put_file(folder / "in.txt", text);
  return documents(folder / "in.txt", separator);
}

TEST(DocumentReader, AFileIsADocument) {
  EXPECT_EQ(documents_of("", DocumentSeparator::file), Texts{});
  EXPECT_EQ(documents_of("x", DocumentSeparator::file), Texts{"x"});
  EXPECT_EQ(documents_of("a\n\nb\n", DocumentSeparator::file), Texts{"a\n\nb\n"});
  EXPECT_EQ(documents_of("\n\n\n", DocumentSeparator::file), Texts{"\n\n\n"});
}

TEST(DocumentReader, Lines) {
  EXPECT_EQ(documents_of("", DocumentSeparator::line), Texts{});
  EXPECT_EQ(documents_of("\n\n\n", DocumentSeparator::line), Texts{});
  EXPECT_EQ(documents_of("a\nb\r\n\nc", DocumentSeparator::line), (Texts{"a", "b", "c"}));
}

TEST(DocumentReader, BlankLines) {
  EXPECT_EQ(documents_of("\n \n\na\nb\n\nc\n \t\r\n\nd e\n", DocumentSeparator::blank_line),
            (Texts{"a\nb", "c", "d e"}));
  EXPECT_EQ(documents_of("a\r\nb\r\n\r\nc\r\n", DocumentSeparator::blank_line), (Texts{"a\r\nb", "c"}));
  EXPECT_EQ(documents_of("\n\n", DocumentSeparator::blank_line), Texts{});
  EXPECT_EQ(documents_of("  a\n  b", DocumentSeparator::blank_line), Texts{"  a\n  b"});
}

TEST(DocumentReader, EndOfText) {
  EXPECT_EQ(documents_of("a<|endoftext|>\nb<|endoftext|><|endoftext|>c", DocumentSeparator::end_of_text),
            (Texts{"a", "\nb", "c"}));
}

TEST(DocumentReader, JsonLines) {
  const TemporaryFolder folder;
  put_file(folder / "in.jsonl",
           "{\"text\": \"a\\nb\"}\n\n  \n{\"id\": 1, \"text\": \"\"}\r\n{\"text\": \"\\u00e9\"}");
  EXPECT_EQ(documents(folder / "in.jsonl", DocumentSeparator::file), (Texts{"a\nb", "\u00e9"}));
  for (const auto& [line, says] :
       std::vector<std::pair<std::string, std::string>>{{"{\"text\": 1}", "a \"text\" that is number"},
                                                        {"{\"body\": \"x\"}", "without \"text\""},
                                                        {"[1]", "array"},
                                                        {"{\"text\": \"\xff\"}", "no JSON"},
                                                        {"plain words", "no JSON"}}) {
    put_file(folder / "in.jsonl", "{\"text\": \"a\"}\n" + line + "\n");
    EXPECT_THAT(message_of<DataError>([&] { documents(folder / "in.jsonl", DocumentSeparator::file); }),
                testing::AllOf(HasSubstr("in.jsonl:2: byte 14"), HasSubstr(says)));
  }
}

// Every way to separate gives the same whatever the size of what the reader sees at once, so long texts with
// separators at all distances from the borders of its blocks are compared with splitting in memory.
TEST(DocumentReader, LongTextsComeWhole) {
  const TemporaryFolder folder;
  Texts expected;
  std::string lines;
  std::string blanks;
  std::string ends;
  for (int i = 0; i < 14; ++i) {
    std::string text;
    const size_t words = 1 + static_cast<size_t>(i) * 60'000;
    for (size_t w = 0; w < words; ++w)
      text += "word" + std::to_string(w % 89) + (w % 7 == 0 ? " and" : "") + " ";
    text += "end";
    expected.push_back(text);
    lines += text + "\n";
    blanks += text + "\n" + std::string(static_cast<size_t>(i), ' ') + "\n";
    ends += text + "<|endoftext|>";
  }
  put_file(folder / "lines", lines);
  put_file(folder / "blanks", blanks);
  put_file(folder / "ends", ends);
  int pieces = 0;
  EXPECT_TRUE(documents(folder / "lines", DocumentSeparator::line, &pieces) == expected);
  EXPECT_GT(pieces, 30) << "long documents come in pieces";
  EXPECT_TRUE(documents(folder / "blanks", DocumentSeparator::blank_line) == expected);
  EXPECT_TRUE(documents(folder / "ends", DocumentSeparator::end_of_text) == expected);
  EXPECT_TRUE(documents(folder / "lines", DocumentSeparator::file) == Texts{lines});
}

TEST(DocumentReader, CutsOnlyBetweenALetterAndASpaceWhereItCan) {
  const TemporaryFolder folder;
  std::string text;
  while (text.size() < 5'000'000) text += "1234 , abc  def\n\n";
  put_file(folder / "in", text);
  DocumentReader reader(folder / "in", DocumentSeparator::file);
  uint64_t at = 0;
  while (const auto piece = reader.next()) {
    EXPECT_EQ(piece->begin, at);
    at += piece->text.size();
    EXPECT_LE(piece->text.size(), DocumentReader::piece_bytes);
    if (piece->ends_document) continue;
    EXPECT_EQ(text[at], ' ');
    EXPECT_TRUE(text[at - 1] == 'c');
  }
  EXPECT_EQ(at, text.size());
  EXPECT_EQ(reader.consumed(), text.size());
}

TEST(DocumentReader, TextsWithoutSpacesDoNotFillTheMemory) {
  const TemporaryFolder folder;
  std::string chinese;
  while (chinese.size() < 40'000'000) chinese += "\u4e2d\u6587\u3002";
  put_file(folder / "in", chinese);
  int pieces = 0;
  EXPECT_TRUE(documents(folder / "in", DocumentSeparator::file, &pieces) == Texts{chinese});
  EXPECT_GE(pieces, 3);
  const std::string zeros(20'000'000, '\0');
  put_file(folder / "in", zeros);
  EXPECT_TRUE(documents(folder / "in", DocumentSeparator::file) == Texts{zeros});
}

// What may be a blank line is looked at whole: a longer one is text, so that it does not fill the memory.
TEST(DocumentReader, AVeryLongLineOfWhiteSpaceIsText) {
  const TemporaryFolder folder;
  const std::string longest(DocumentReader::longest_piece, ' ');
  put_file(folder / "in", "a\n" + longest + "\nb");
  EXPECT_TRUE(documents(folder / "in", DocumentSeparator::blank_line) == (Texts{"a", "b"}));
  const std::string text = "a\n" + longest + longest + longest + " \nb";
  put_file(folder / "in", text + "\n\nc");
  int pieces = 0;
  EXPECT_TRUE(documents(folder / "in", DocumentSeparator::blank_line, &pieces) == (Texts{text, "c"}));
  EXPECT_GE(pieces, 4);
}

TEST(DocumentReader, ReadsAPipe) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { put_file(pipe, "a\nb\n"); });
  EXPECT_EQ(documents(pipe, DocumentSeparator::line), (Texts{"a", "b"}));
  writer.join();
}

TEST(DocumentReader, NamesWhatItCannotRead) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<DataError>([&] { DocumentReader r(folder / "none", DocumentSeparator::file); }),
              testing::AllOf(HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(
      message_of<DataError>([&] { DocumentReader r(folder.path().string(), DocumentSeparator::file); }),
      HasSubstr("found a folder, expected a file"));
}

}  // namespace
}  // namespace penstock::data
