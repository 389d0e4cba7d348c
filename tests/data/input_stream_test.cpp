#include "data/input_stream.h"

#include <functional>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "data/data_error.h"
#include "data/document_reader.h"
#include "tests/data/packed.h"
#include "tests/data/temporary_folder.h"

namespace penstock::data {
namespace {

using namespace std::string_literals;
using testing::AllOf;
using testing::HasSubstr;
using tests::gzip;
using tests::message_of;
using tests::put_file;
using tests::TemporaryFolder;
using tests::zstd;

std::string read_all(const std::string& path, size_t piece = 1 << 16) {
  InputStream stream(path);
  std::string out;
  std::string buffer(piece, '\0');
  while (const size_t count = stream.read(buffer.data(), piece)) out.append(buffer, 0, count);
  EXPECT_EQ(stream.offset(), out.size());
  EXPECT_EQ(stream.file_offset(), std::filesystem::file_size(path));
  return out;
}

// Words in no order: packs to about a third, over several of the reader's buffers.
std::string words(size_t bytes) {
  std::mt19937 random(3);
  std::string text;
  while (text.size() < bytes)
    text += "w" + std::to_string(random() % 100000) + (random() % 9 == 0 ? "\n" : " ");
  return text;
}

TEST(InputStream, UnpacksWhatItsFirstBytesSay) {
  const TemporaryFolder folder;
  const std::string text = words(3'000'000);
  const std::string skippable = "\x50\x2A\x4D\x18\x03\0\0\0abc"s;
  const std::vector<std::pair<std::string, std::string>> cases{
      {"plain.txt", text},
      {"plain", ""},
      {"x.gz", gzip(text)},
      {"no-ending", gzip(text)},
      {"members.gz", gzip(text.substr(0, 5)) + gzip("") + gzip(text.substr(5))},
      {"tape.gz", gzip(text) + std::string(1000, '\0')},
      {"x.zst", zstd(text)},
      {"frames.txt", zstd(text.substr(0, 7)) + skippable + zstd("") + zstd(text.substr(7))},
      {"skippable.zst", skippable + zstd(text)},
  };
  for (const auto& [name, bytes] : cases) {
    put_file(folder / name, bytes);
    const std::string expected = name == "plain" ? "" : text;
    EXPECT_TRUE(read_all(folder / name) == expected) << name;
    EXPECT_TRUE(read_all(folder / name, 65'537) == expected) << name;
  }
  put_file(folder / "short", gzip("hello"));
  EXPECT_EQ(read_all(folder / "short", 1), "hello");
  put_file(folder / "short", zstd("hello"));
  EXPECT_EQ(read_all(folder / "short", 1), "hello");
}

TEST(InputStream, GoesOnAnywhere) {
  const TemporaryFolder folder;
  const std::string text = words(1'000'000);
  for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
    put_file(folder / "x", bytes);
    for (const uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{777'777}, uint64_t{text.size()}}) {
      InputStream stream(folder / "x");
      stream.skip_to(offset);
      std::string rest(text.size() - offset + 1, '\0');
      size_t filled = 0;
      while (const size_t count = stream.read(rest.data() + filled, rest.size() - filled)) filled += count;
      rest.resize(filled);
      EXPECT_TRUE(rest == text.substr(offset)) << offset;
      EXPECT_EQ(stream.offset(), text.size());
    }
    EXPECT_THAT(message_of<DataError>([&] {
                  InputStream stream(folder / "x");
                  stream.skip_to(text.size() + 1);
                }),
                AllOf(HasSubstr("bytes of text, expected at least"), HasSubstr("changed")));
  }
}

TEST(InputStream, ReadsAPackedPipe) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  const std::string text = words(500'000);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { put_file(pipe, gzip(text)); });
  InputStream stream(pipe);
  std::string out(text.size() + 1, '\0');
  size_t filled = 0;
  while (const size_t count = stream.read(out.data() + filled, out.size() - filled)) filled += count;
  writer.join();
  out.resize(filled);
  EXPECT_TRUE(out == text);
  EXPECT_FALSE(stream.text_size());
}

// ---- what is wrong with packed files

struct WrongPacked {
  const char* name;
  std::string file;
  std::function<std::string(const std::string& text)> bytes;
  std::vector<std::string> says;
};

std::ostream& operator<<(std::ostream& out, const WrongPacked& wrong) {
  return out << wrong.name;
}

std::string without_end(std::string bytes, size_t count) {
  bytes.resize(bytes.size() - count);
  return bytes;
}

std::string flipped(std::string bytes, size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
  return bytes;
}

class WrongPackedFile : public testing::TestWithParam<WrongPacked> {};

TEST_P(WrongPackedFile, IsRefusedWithFileOffsetFoundAndExpected) {
  const TemporaryFolder folder;
  put_file(folder / GetParam().file, GetParam().bytes(words(200'000)));
  const std::string message = message_of<DataError>([&] {
    DocumentReader reader(folder / GetParam().file, DocumentSeparator::line);
    while (reader.next()) {
    }
  });
  EXPECT_THAT(message, testing::ContainsRegex(GetParam().file + ": byte [0-9]+: found .+, expected .+; .+"));
  for (const std::string& part : GetParam().says) EXPECT_THAT(message, HasSubstr(part));
}

using S = std::string;
const std::vector<WrongPacked> wrongs{
    {"gzip_cut_in_header",
     "x.gz",
     [](const S& t) { return gzip(t).substr(0, 5); },
     {"byte 5", "within a gzip stream", "after 0 bytes of text", "cut short"}},
    {"gzip_cut",
     "x",
     [](const S& t) { return gzip(t).substr(0, 50'000); },
     {"byte 50000", "within a gzip stream"}},
    {"gzip_cut_before_checksum",
     "x.gz",
     [](const S& t) { return without_end(gzip(t), 8); },
     {"within a gzip stream"}},
    {"gzip_cut_in_length",
     "x.gz",
     [](const S& t) { return without_end(gzip(t), 1); },
     {"after " /* all the text */, "bytes of text"}},
    {"gzip_checksum",
     "x.gz",
     [](const S& t) { return flipped(gzip(t), gzip(t).size() - 6); },
     {"a damaged gzip stream (incorrect data check)"}},
    {"gzip_length",
     "x.gz",
     [](const S& t) { return flipped(gzip(t), gzip(t).size() - 2); },
     {"incorrect length check"}},
    {"gzip_method", "x.gz", [](const S& t) { return flipped(gzip(t), 2); }, {"unknown compression method"}},
    {"gzip_body", "x.gz", [](const S& t) { return flipped(gzip(t), 40'000); }, {"a damaged gzip stream"}},
    {"gzip_second_member",
     "x.gz",
     [](const S& t) { return gzip("a") + flipped(gzip(t), 1); },
     {"byte 2", "a damaged gzip stream (incorrect header check)"}},
    {"gzip_second_member_cut",
     "x.gz",
     [](const S& t) { return gzip(t) + gzip("abc").substr(0, 12); },
     {"cut short"}},
    {"gzip_garbage",
     "x.gz",
     [](const S&) { return gzip("abc") + "garbage"; },
     {"byte 23", "byte 67 behind the end of the gzip stream"}},
    {"gzip_garbage_behind_zeros",
     "x.gz",
     [](const S&) { return gzip("abc") + std::string(100, '\0') + "\x1F\x8B"; },
     {"byte 123", "byte 1F behind the end"}},
    {"gzip_name_only",
     "x.gz",
     [](const S&) { return S("plain words"); },
     {"byte 0", "begins with 70 6C 61 69", "a gzip stream (1F 8B), as its name says"}},
    {"gzip_first_byte",
     "x.gz",
     [](const S& t) { return flipped(gzip(t), 0); },
     {"byte 0", "begins with 4A 8B"}},
    {"gzip_empty", "x.gz", [](const S&) { return S(); }, {"byte 0", "an empty file"}},
    {"zstd_cut",
     "x.zst",
     [](const S& t) { return zstd(t).substr(0, 30'000); },
     {"byte 30000", "within a zstd stream"}},
    {"zstd_cut_in_header",
     "x",
     [](const S& t) { return zstd(t).substr(0, 5); },
     {"byte 5", "within a zstd stream"}},
    {"zstd_cut_in_checksum",
     "x.zst",
     [](const S& t) { return without_end(zstd(t), 2); },
     {"within a zstd stream"}},
    {"zstd_checksum",
     "x.zst",
     [](const S& t) { return flipped(zstd(t), zstd(t).size() - 2); },
     {"a damaged zstd stream", "checksum"}},
    {"zstd_second_frame_cut",
     "x.zst",
     [](const S& t) { return zstd(t) + zstd("abc").substr(0, 6); },
     {"cut short"}},
    {"zstd_garbage",
     "x.zst",
     [](const S&) { return zstd("abc") + "garbage"; },
     {"a damaged zstd stream", "Unknown frame"}},
    {"zstd_window",
     "x.zst",
     [](const S& t) { return zstd(t, 28); },
     {"a window of more than 128 MiB", "--long=27"}},
    {"zstd_name_only",
     "x.zst",
     [](const S&) { return S("plain"); },
     {"a zstd stream (28 B5 2F FD), as its name says"}},
    {"xz",
     "x.txt",
     [](const S&) {
       return "\xFD"
              "7zXZ\0\0\4"s;
     },
     {"byte 0", "an xz file", "xzcat"}},
    {"bzip2", "x.txt", [](const S&) { return S("BZh91AY&SY\0"); }, {"a bzip2 file", "bzcat"}},
    {"zip", "x.jsonl", [](const S&) { return S("PK\3\4abcd"); }, {"a zip archive"}},
    {"lz4", "x.txt", [](const S&) { return S("\4\x22\x4D\x18zzzz"); }, {"an lz4 file", "lz4cat"}},
    {"parquet", "x.txt", [](const S&) { return S("PAR1xxxxPAR1"); }, {"a Parquet file", "JSON lines"}},
};

INSTANTIATE_TEST_SUITE_P(Kinds, WrongPackedFile, testing::ValuesIn(wrongs),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST(InputStream, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  for (const std::string& whole : {gzip("a small text, packed"), zstd("a small text, packed")}) {
    for (size_t size = 4; size < whole.size(); ++size) {
      put_file(folder / "x", whole.substr(0, size));
      EXPECT_THROW(read_all(folder / "x"), DataError) << size << " of " << whole.size();
    }
  }
}

TEST(InputStream, JsonLinesAreRecognisedBeforeTheEndingOfThePacker) {
  const TemporaryFolder folder;
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"a.jsonl.gz", gzip("{\"text\": \"one\"}\n{\"text\": 5}\n")},
           {"a.jsonl.zst", zstd("{\"text\": \"one\"}\n{\"text\": 5}\n")},
           {"a.jsonl", gzip("{\"text\": \"one\"}\n{\"text\": 5}\n")}}) {
    put_file(folder / name, bytes);
    DocumentReader reader(folder / name, DocumentSeparator::file);
    EXPECT_EQ(reader.next()->text, "one");
    EXPECT_THAT(message_of<DataError>([&] { reader.next(); }),
                AllOf(HasSubstr(name + ":2: byte 16"), HasSubstr("number")));
  }
  put_file(folder / "pipe-like", "{\"text\": \"one\"}\n");
  EXPECT_EQ(DocumentReader(folder / "pipe-like", DocumentSeparator::file, true).next()->text, "one");
}

// Where pieces end follows from the text alone: a reader that goes on from any of them gives the same ones.
TEST(DocumentReader, GoesOnFromAnyPieceWithTheSamePieces) {
  const TemporaryFolder folder;
  std::string text = words(5'000'000);
  text += std::string(20'000'000, '7');  // no place to cut for longer than a piece may be
  text += "\n\n" + words(2'000'000) + "\n \n" + std::string(3'000'000, '1') + " end\n\n\n";
  for (const auto separator :
       {DocumentSeparator::file, DocumentSeparator::line, DocumentSeparator::blank_line}) {
    for (const std::string& bytes : {text, gzip(text)}) {
      put_file(folder / "in", bytes);
      struct Piece {
        DocumentPosition after;
        size_t size;
        uint64_t begin;
        bool ends;
      };
      std::vector<Piece> pieces;
      DocumentReader reader(folder / "in", separator);
      while (const auto piece = reader.next())
        pieces.push_back({reader.position(), piece->text.size(), piece->begin, piece->ends_document});
      for (size_t from = 0; from < pieces.size(); from += 1 + pieces.size() / 7) {
        DocumentReader again(folder / "in", separator);
        again.go_on(pieces[from].after);
        for (size_t i = from + 1; i < std::min(pieces.size(), from + 30); ++i) {
          const auto piece = again.next();
          ASSERT_TRUE(piece);
          ASSERT_EQ(piece->text.size(), pieces[i].size);
          ASSERT_EQ(piece->begin, pieces[i].begin);
          ASSERT_EQ(piece->ends_document, pieces[i].ends);
          ASSERT_EQ(again.consumed(), pieces[i].after.byte);
        }
      }
    }
  }
}

TEST(DocumentReader, ALineOfJsonHasALimit) {
  const TemporaryFolder folder;
  put_file(folder / "in.jsonl", "{\"text\": \"a\"}\n{\"text\": \"" +
                                    std::string(DocumentReader::longest_line + 2'000'000, 'x') + "\"}\n");
  DocumentReader reader(folder / "in.jsonl", DocumentSeparator::file);
  EXPECT_EQ(reader.next()->text, "a");
  EXPECT_THAT(message_of<DataError>([&] { reader.next(); }),
              AllOf(HasSubstr("in.jsonl:2: byte 14: found a line of more than 32 MiB")));
}

}  // namespace
}  // namespace penstock::data
