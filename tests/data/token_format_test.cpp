// Token files of llm.c and nanoGPT.
#include "data/token_format.h"

#include <array>
#include <cstring>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_error.h"
#include "data/sampler.h"
#include "data/token_file.h"
#include "data/token_writer.h"
#include "tests/data/temporary_folder.h"

namespace penstock::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tests::get_file;
using tests::message_of;
using tests::put_file;
using tests::TemporaryFolder;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::string llm_c_file(int32_t magic, int32_t version, const std::vector<T>& tokens) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<int32_t>(tokens.size());
  return bytes_of(header) + bytes_of(tokens);
}

std::vector<int32_t> starts_of(const TokenFile& file, uint64_t first, size_t count) {
  std::vector<int32_t> starts(count);
  starts.resize(file.document_starts(first, starts));
  return starts;
}

std::vector<int32_t> tokens_of(const TokenFile& file) {
  std::vector<int32_t> tokens(file.tokens());
  file.read(0, tokens, 200000);
  return tokens;
}

TEST(LlmC, ReadsGpt2Files) {
  const TemporaryFolder folder;
  put_file(folder / "a.bin", llm_c_file<uint16_t>(20240520, 1, {50256, 1, 2, 50256, 3, 50256, 50256, 4}));
  for (const char* name : {"a", "a.bin"}) {
    const TokenFile file(folder / name);
    EXPECT_EQ(file.format(), TokenFormat::llm_c);
    EXPECT_EQ(file.type(), TokenType::uint16);
    EXPECT_FALSE(file.index());
    EXPECT_TRUE(file.knows_documents());
    EXPECT_FALSE(file.has_side_car());
    EXPECT_EQ(tokens_of(file), (std::vector<int32_t>{50256, 1, 2, 50256, 3, 50256, 50256, 4}));
    EXPECT_EQ(file.facts().documents, 4u);
    EXPECT_EQ(file.facts().largest_token, 50256);
    EXPECT_EQ(starts_of(file, 0, 8), (std::vector<int32_t>{0, 3, 5, 6}));
    EXPECT_EQ(starts_of(file, 1, 3), (std::vector<int32_t>{2}));
    EXPECT_EQ(starts_of(file, 4, 1), std::vector<int32_t>{});
  }
}

TEST(LlmC, ReadsLlama3Files) {
  const TemporaryFolder folder;
  put_file(folder / "a.bin", llm_c_file<uint32_t>(20240801, 7, {128000, 7, 128255, 128000, 9}));
  const TokenFile file(folder / "a.bin");
  EXPECT_EQ(file.type(), TokenType::uint32);
  EXPECT_EQ(tokens_of(file), (std::vector<int32_t>{128000, 7, 128255, 128000, 9}));
  EXPECT_EQ(file.facts().documents, 2u);
  EXPECT_EQ(starts_of(file, 0, 5), (std::vector<int32_t>{0, 3}));
}

// A shard may begin in the middle of a document.
TEST(LlmC, AFileThatBeginsWithinADocumentHasThatToo) {
  const TemporaryFolder folder;
  put_file(folder / "a.bin", llm_c_file<uint16_t>(20240520, 1, {1, 2, 50256, 3}));
  const TokenFile file(folder / "a");
  EXPECT_EQ(file.facts().documents, 2u);
  EXPECT_EQ(starts_of(file, 0, 4), (std::vector<int32_t>{0, 2}));
}

TEST(Headerless, SideCarSaysWhatItIs) {
  const TemporaryFolder folder;
  put_file(folder / "a.bin", bytes_of<uint16_t>({1, 2, 99, 3, 99, 4}));
  EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / "a"); }),
              AllOf(HasSubstr("a.bin: byte 0: found a file that begins with 01 00 02 00"),
                    HasSubstr("a.idx beside it"), HasSubstr("--headerless uint16 --write-side-car")));
  const DocumentMark mark{99, false};
  {
    const TokenFile file(folder / "a", HeaderlessFile{TokenType::uint16, mark});
    EXPECT_EQ(file.format(), TokenFormat::headerless);
    EXPECT_EQ(file.facts().documents, 3u);
    write_side_car(file.bin_path(), file.facts());
  }
  const TokenFile file(folder / "a");
  EXPECT_TRUE(file.has_side_car());
  file.verify();
  EXPECT_EQ(file.facts().mark, mark);
  EXPECT_EQ(tokens_of(file), (std::vector<int32_t>{1, 2, 99, 3, 99, 4}));
  EXPECT_EQ(starts_of(file, 0, 6), (std::vector<int32_t>{0, 3, 5}));
  EXPECT_EQ(starts_of(file, 3, 3), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(starts_of(file, 4, 1), std::vector<int32_t>{});
}

TEST(Headerless, WithoutAMarkItIsOneDocument) {
  const TemporaryFolder folder;
  put_file(folder / "a.bin", bytes_of<uint32_t>({1, 2, 70000}));
  const TokenFile file(folder / "a", HeaderlessFile{TokenType::uint32, {}});
  EXPECT_FALSE(file.knows_documents());
  EXPECT_EQ(file.facts().documents, 1u);
  EXPECT_EQ(starts_of(file, 0, 3), std::vector<int32_t>{0});
  EXPECT_EQ(tokens_of(file).back(), 70000);
}

// Whoever holds the same tokens has the same data, whatever they lie in; samples too.
TEST(TokenFormats, GiveTheSameSamplesAndFingerprints) {
  const TemporaryFolder folder;
  std::vector<uint16_t> tokens;
  for (int i = 0; i < 1000; ++i) tokens.push_back(static_cast<uint16_t>(i % 17 == 16 ? 300 : i % 251));
  {
    TokenWriter writer(folder / "megatron", 50257, "");
    for (const uint16_t token : tokens) {
      const int32_t wide = token;
      writer.add({&wide, 1});
      if (token == 300) writer.end_document();
    }
    writer.finish();
  }
  put_file(folder / "llm_c.bin", llm_c_file<uint16_t>(20240520, 1, tokens));
  put_file(folder / "nano.bin", bytes_of(tokens));
  write_side_car(
      folder / "nano.bin",
      TokenFile(folder / "nano", HeaderlessFile{TokenType::uint16, DocumentMark{300, false}}).facts());
  std::vector<std::vector<int32_t>> read;
  std::vector<std::string> fingerprints;
  for (const char* name : {"megatron", "llm_c", "nano"}) {
    SamplerOptions options;
    options.sources = {{folder / name, std::nullopt}};
    options.sequence_length = 20;
    options.vocabulary = 50257;
    const Sampler sampler(options);
    fingerprints.push_back(sampler.fingerprint());
    std::vector<int32_t> all;
    std::array<std::array<int32_t, 20>, 4> buffers{};
    for (uint64_t k = 0; k < sampler.samples_per_epoch(); ++k) {
      const size_t starts = sampler.read(k, {buffers[0], buffers[1], buffers[2], buffers[3]});
      all.insert(all.end(), buffers[0].begin(), buffers[0].end());
      all.insert(all.end(), buffers[1].begin(), buffers[1].end());
      if (name != std::string("llm_c"))  // its documents begin with the token, here they end with it
        all.insert(all.end(), buffers[3].begin(), buffers[3].begin() + static_cast<std::ptrdiff_t>(starts));
    }
    read.push_back(all);
  }
  EXPECT_EQ(fingerprints[0], fingerprints[1]);
  EXPECT_EQ(fingerprints[0], fingerprints[2]);
  EXPECT_EQ(read[0], read[2]);
  EXPECT_LT(read[1].size(), read[0].size());
}

TEST(TokenFormats, AnIndexBesideTheFileDecides) {
  const TemporaryFolder folder;
  const std::string bin = llm_c_file<uint16_t>(20240520, 1, {1, 2});
  put_file(folder / "a.bin", bin);
  put_file(folder / "a.idx", "nothing");
  EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / "a"); }), HasSubstr("a.idx: byte 7"));
}

// ---- what is wrong with them

struct Wrong {
  const char* name;
  std::function<void(std::string& bytes)> change;
  std::vector<std::string> says;
};

std::ostream& operator<<(std::ostream& out, const Wrong& wrong) {
  return out << wrong.name;
}

class WrongLlmC : public testing::TestWithParam<Wrong> {};

TEST_P(WrongLlmC, IsRefusedWithFileOffsetFoundAndExpected) {
  const TemporaryFolder folder;
  std::string bytes = llm_c_file<uint16_t>(20240520, 1, {50256, 1, 2, 3});
  GetParam().change(bytes);
  put_file(folder / "a.bin", bytes);
  const std::string message = message_of<DataError>([&] { TokenFile file(folder / "a"); });
  EXPECT_THAT(message, testing::MatchesRegex(".*a.bin: byte [0-9]+: found .+, expected .+; .+"));
  for (const std::string& part : GetParam().says) EXPECT_THAT(message, HasSubstr(part));
}

void put_number(std::string& bytes, size_t at, int32_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

using S = std::string;
const std::vector<Wrong> wrongs{
    {"empty", [](S& b) { b.clear(); }, {"byte 0", "an empty file"}},
    {"magic", [](S& b) { b[0] = 'X'; }, {"byte 0", "begins with 58 D8 34 01", "20240520 or 20240801"}},
    {"questions", [](S& b) { put_number(b, 0, 20240522); }, {"byte 0", "multiple-choice questions"}},
    {"short_header", [](S& b) { b.resize(100); }, {"byte 100", "header of 1024 bytes"}},
    {"version", [](S& b) { put_number(b, 4, 2); }, {"byte 4", "version 2", "version 1"}},
    {"llama_version", [](S& b) { put_number(b, 0, 20240801); }, {"byte 4", "version 1", "version 7"}},
    {"more",
     [](S& b) { put_number(b, 8, 5); },
     {"byte 8", "5 tokens", "8 bytes behind the header, 2 a token"}},
    {"fewer", [](S& b) { put_number(b, 8, 3); }, {"byte 8", "3 tokens"}},
    {"negative", [](S& b) { put_number(b, 8, -4); }, {"byte 8", "-4 tokens"}},
    {"odd_length", [](S& b) { b.pop_back(); }, {"byte 8", "4 tokens", "7 bytes behind the header"}},
    {"longer", [](S& b) { b += "xx"; }, {"byte 8", "10 bytes behind the header"}},
    {"no_tokens_left", [](S& b) { b.resize(1024); }, {"byte 8", "0 bytes behind the header"}},
};

INSTANTIATE_TEST_SUITE_P(Kinds, WrongLlmC, testing::ValuesIn(wrongs),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST(Headerless, ALengthThatEndsWithinATokenIsRefused) {
  const TemporaryFolder folder;
  put_file(folder / "a.bin", "12345");
  EXPECT_THAT(message_of<DataError>([&] {
                TokenFile file(folder / "a", HeaderlessFile{TokenType::uint16, {}});
              }),
              AllOf(HasSubstr("a.bin: byte 4: found the end of the file in the middle of a token (5 bytes)"),
                    HasSubstr("a multiple of 2 bytes (uint16)")));
  put_file(folder / "a.bin", "1234");
  write_side_car(folder / "a.bin", TokenFile(folder / "a", HeaderlessFile{TokenType::uint16, {}}).facts());
  put_file(folder / "a.bin", "123");
  EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / "a"); }), HasSubstr("a.bin: byte 2"));
  put_file(folder / "a.bin", "12");
  EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / "a"); }),
              HasSubstr("found tokens = 2, expected 1"));
}

TEST(TokenFormats, ATokenOutsideTheVocabularyIsFoundWithItsPlace) {
  const TemporaryFolder folder;
  put_file(folder / "a.bin", llm_c_file<uint16_t>(20240520, 1, {50256, 1, 65535, 3}));
  const TokenFile gpt(folder / "a");
  std::vector<int32_t> tokens(4);
  EXPECT_THAT(
      message_of<DataError>([&] { gpt.read(0, tokens, 50257); }),
      AllOf(HasSubstr("a.bin: byte 1028: found token id 65535 (token 2)"), HasSubstr("ids from 0 to 50256")));
  EXPECT_THAT(message_of<DataError>([&] { gpt.require_vocabulary(50257); }),
              HasSubstr("token ids up to 65535, the first above it 65535 at byte 1028 (token 2)"));
  put_file(folder / "b.bin", llm_c_file<uint32_t>(20240801, 7, {128000, 0xFFFFFFFFU}));
  EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / "b"); }),
              HasSubstr("b.bin: byte 1028: found token id 4294967295 (token 1)"));
}

TEST(TokenFormats, SideCarsOfFilesWithoutAnIndexAreChecked) {
  const TemporaryFolder folder;
  put_file(folder / "a.bin", llm_c_file<uint16_t>(20240520, 1, {50256, 1, 2, 50256}));
  write_side_car(folder / "a.bin", TokenFile(folder / "a").facts());
  const std::string good = get_file(folder / "a.bin.meta.toml");
  struct Change {
    const char* from;
    const char* to;
    const char* says;
  };
  for (const Change& change :
       std::vector<Change>{{"\"llm.c\"", "\"numpy\"", "found \"numpy\", expected llm.c or headerless"},
                           {"\"llm.c\"", "7", "found 7"},
                           {"format = \"llm.c\"\n", "", "a.idx"},
                           {"= 50256\n", "= -1\n", "expected an integer of at least 0"},
                           {"document_token = 50256", "document_token = 5000000000", "expected a token id"},
                           {"\"front\"", "\"middle\"", "expected front or end"},
                           {"document_token_place = \"front\"\n", "", "document_token_place: found nothing"},
                           {"tokens = 4", "tokens = 5", "found tokens = 5, expected 4"},
                           {"uint16", "uint32", "found dtype = uint32, expected uint16"},
                           {"\"llm.c\"", "\"headerless\"", "found tokens = 4, expected 516"}}) {
    std::string text = good;
    const size_t at = text.find(change.from);
    ASSERT_NE(at, std::string::npos) << change.from;
    text.replace(at, std::strlen(change.from), change.to);
    put_file(folder / "a.bin.meta.toml", text);
    EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / "a"); }), HasSubstr(change.says))
        << change.to;
  }
  std::string text = good;
  text.replace(text.find("documents = 2"), 13, "documents = 9");
  put_file(folder / "a.bin.meta.toml", text);
  EXPECT_THAT(message_of<DataError>([&] { TokenFile(folder / "a").verify(); }), HasSubstr("documents = 9"));
  // The mark may be another one: of another tokenizer's files.
  text = good;
  text.replace(text.find("document_token = 50256"), 22, "document_token = 1");
  put_file(folder / "a.bin.meta.toml", text);
  EXPECT_EQ(starts_of(TokenFile(folder / "a"), 0, 4), (std::vector<int32_t>{0, 1}));
}

TEST(ContentFingerprint, IsOfTokensAndTheirType) {
  const TemporaryFolder folder;
  const std::vector<uint16_t> narrow{50256, 1, 2};
  const std::vector<uint32_t> wide{50256, 1, 2};
  put_file(folder / "a.bin", llm_c_file(20240520, 1, narrow));
  put_file(folder / "b.bin", bytes_of(narrow));
  put_file(folder / "c.bin", bytes_of(wide));
  const std::string of_llm_c = content_fingerprint(TokenFile(folder / "a").facts());
  EXPECT_EQ(of_llm_c,
            content_fingerprint(TokenFile(folder / "b", HeaderlessFile{TokenType::uint16, {}}).facts()));
  EXPECT_NE(of_llm_c,
            content_fingerprint(TokenFile(folder / "c", HeaderlessFile{TokenType::uint32, {}}).facts()));
}

TEST(TokenFile, KnowsThatItsMarkDoesNotOccur) {
  const TemporaryFolder folder;
  const auto lacks = [&](const std::vector<uint16_t>& tokens) {
    put_file(folder / "a.bin", llm_c_file(20240520, 1, tokens));
    return TokenFile(folder / "a").lacks_marks();
  };
  EXPECT_TRUE(lacks({1, 2, 3}));
  EXPECT_FALSE(lacks({50256, 2, 3})) << "one document, and it has its mark";
  EXPECT_FALSE(lacks({1, 50256, 3}));
  EXPECT_FALSE(lacks({}));
  put_file(folder / "b.bin", bytes_of<uint16_t>({1, 2, 3}));
  EXPECT_TRUE(
      TokenFile(folder / "b", HeaderlessFile{TokenType::uint16, DocumentMark{0, false}}).lacks_marks());
  EXPECT_FALSE(
      TokenFile(folder / "b", HeaderlessFile{TokenType::uint16, DocumentMark{3, false}}).lacks_marks());
  EXPECT_FALSE(TokenFile(folder / "b", HeaderlessFile{TokenType::uint16, {}}).lacks_marks());
}

TEST(TokenFile, ATextIsNone) {
  const TemporaryFolder folder;
  for (const char* name : {"book.txt", "book.jsonl", "book.jsonl.zst", "book"}) {
    put_file(folder / name, "once upon a time");
    EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / name); }),
                AllOf(HasSubstr(std::string(name) + ": found a file that holds no tokens"),
                      HasSubstr("penstock data prepare --input " + (folder / name) + " --tokenizer")));
  }
  EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / "none.txt"); }), HasSubstr("No such file"));
}

}  // namespace
}  // namespace penstock::data
