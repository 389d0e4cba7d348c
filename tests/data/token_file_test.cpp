#include "data/token_file.h"

#include <cstring>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_error.h"
#include "data/index_layout.h"
#include "data/token_writer.h"
#include "tests/data/temporary_folder.h"

namespace penstock::data {
namespace {

using testing::HasSubstr;
using tests::get_file;
using tests::message_of;
using tests::put_file;
using tests::TemporaryFolder;

using Documents = std::vector<std::vector<int32_t>>;

void write_documents(const std::string& prefix, const Documents& documents, int64_t vocabulary) {
  TokenWriter writer(prefix, vocabulary, "0123456789abcdef");
  for (const auto& document : documents) {
    writer.add(document);
    writer.end_document();
  }
  writer.finish();
}

const Documents small{{1, 2, 3}, {}, {99, 0}, {7}};

TEST(TokenFile, HasWhatWasWritten) {
  const TemporaryFolder folder;
  write_documents(folder / "a", small, 100);
  for (const char* name : {"a", "a.idx", "a.bin"}) {
    const TokenFile file(folder / name);
    EXPECT_TRUE(file.has_side_car());
    EXPECT_EQ(file.index()->type(), TokenType::uint16);
    EXPECT_EQ(file.tokens(), 6u);
    EXPECT_EQ(file.index()->documents(), 3u) << "an empty document is none";
    EXPECT_EQ(file.index()->document_start(0), 0u);
    EXPECT_EQ(file.index()->document_start(1), 3u);
    EXPECT_EQ(file.index()->document_start(3), 6u);
    EXPECT_EQ(file.index()->first_document_from(0), 0u);
    EXPECT_EQ(file.index()->first_document_from(1), 1u);
    EXPECT_EQ(file.index()->first_document_from(3), 1u);
    EXPECT_EQ(file.index()->first_document_from(6), 3u);
    EXPECT_EQ(file.facts().largest_token, 99);
    EXPECT_EQ(file.facts().vocabulary, 100);
    EXPECT_EQ(file.facts().tokenizer, "0123456789abcdef");
    std::vector<int32_t> tokens(6);
    file.read(0, tokens, 100);
    EXPECT_EQ(tokens, (std::vector<int32_t>{1, 2, 3, 99, 0, 7}));
    file.verify();
  }
}

TEST(TokenFile, BytesAreThoseOfTheFormat) {
  const TemporaryFolder folder;
  write_documents(folder / "a", {{1, 2}, {3}}, 100);
  const unsigned char expected[] = {
      0x4D, 0x4D, 0x49, 0x44, 0x49, 0x44, 0x58, 0, 0,                       // magic
      1,    0,    0,    0,    0,    0,    0,    0,                          // version
      8,                                                                    // uint16
      2,    0,    0,    0,    0,    0,    0,    0,                          // sequences
      3,    0,    0,    0,    0,    0,    0,    0,                          // documents + 1
      2,    0,    0,    0,    1,    0,    0,    0,                          // lengths
      0,    0,    0,    0,    0,    0,    0,    0, 4, 0, 0, 0, 0, 0, 0, 0,  // offsets
      0,    0,    0,    0,    0,    0,    0,    0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(get_file(folder / "a.idx"),
            std::string(reinterpret_cast<const char*>(expected), sizeof(expected)));
  EXPECT_EQ(get_file(folder / "a.bin"), std::string("\1\0\2\0\3\0", 6));
}

TEST(TokenFile, TypeFollowsTheVocabulary) {
  const TemporaryFolder folder;
  write_documents(folder / "narrow", {{65498}}, 65499);
  write_documents(folder / "wide", {{65499, 1}}, 65500);
  EXPECT_EQ(TokenFile(folder / "narrow").index()->type(), TokenType::uint16);
  const TokenFile wide(folder / "wide");
  EXPECT_EQ(wide.index()->type(), TokenType::int32);
  EXPECT_EQ(wide.facts().largest_token, 65499);
}

TEST(TokenFile, ReadsEveryIntegerType) {
  const std::vector<std::pair<TokenType, std::string>> cases{
      {TokenType::uint8, std::string("\5\xC8", 2)},
      {TokenType::int8, std::string("\5\x7F", 2)},
      {TokenType::int16, std::string("\5\0\xE8\3", 4)},
      {TokenType::int32, std::string("\5\0\0\0\0\0\1\0", 8)},
      {TokenType::int64, std::string("\5\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0", 16)},
      {TokenType::uint16, std::string("\5\0\xFF\xFF", 4)}};
  const std::vector<int64_t> second{200, 127, 1000, 65536, 65536, 65535};
  for (size_t i = 0; i < cases.size(); ++i) {
    const TemporaryFolder folder;
    write_documents(folder / "a", {{5, 6}}, 100);
    std::string index = get_file(folder / "a.idx");
    index[index_layout::type_at] = static_cast<char>(cases[i].first);
    put_file(folder / "a.idx", index);
    put_file(folder / "a.bin", cases[i].second);
    std::filesystem::remove(side_car_path(folder / "a.bin"));
    const TokenFile file(folder / "a");
    EXPECT_FALSE(file.has_side_car());
    EXPECT_EQ(file.facts().largest_token, second[i]);
    std::vector<int32_t> tokens(2);
    file.read(0, tokens, 1 << 20);
    EXPECT_EQ(tokens, (std::vector<int32_t>{5, static_cast<int32_t>(second[i])}));
  }
}

TEST(TokenFile, WriterRefusesIdsOutsideTheVocabulary) {
  const TemporaryFolder folder;
  TokenWriter writer(folder / "a", 100, "");
  writer.add(std::vector<int32_t>{1, 2});
  EXPECT_THAT(message_of<DataError>([&] {
                writer.add(std::vector<int32_t>{3, 100});
              }),
              testing::AllOf(HasSubstr("a.bin: byte 4"), HasSubstr("token id 100"), HasSubstr("0 to 99")));
  EXPECT_THROW(writer.add(std::vector<int32_t>{-1}), DataError);
}

TEST(TokenFile, ALongDocumentIsSeveralSequences) {
  const TemporaryFolder folder;
  TokenWriter writer(folder / "a", 100, "", 3);
  writer.add(std::vector<int32_t>{1, 2});
  writer.end_document();
  writer.add(std::vector<int32_t>{3, 4, 5, 6, 7, 8, 9});
  writer.add(std::vector<int32_t>{10, 11});  // nine tokens: the third sequence ends with the document
  writer.end_document();
  writer.add(std::vector<int32_t>{12, 13, 14, 15});
  writer.finish();
  const TokenFile file(folder / "a");
  EXPECT_EQ(file.index()->sequences(), 6u);
  EXPECT_EQ(file.index()->documents(), 3u);
  EXPECT_EQ(file.index()->document_start(1), 2u);
  EXPECT_EQ(file.index()->document_start(2), 11u);
  EXPECT_EQ(file.tokens(), 15u);
  file.verify();
}

TEST(TokenFile, AnUnfinishedWriterLeavesTheOldFiles) {
  const TemporaryFolder folder;
  write_documents(folder / "a", small, 100);
  {
    TokenWriter writer(folder / "a", 100, "");
    writer.add(std::vector<int32_t>{1, 2});
  }
  TokenFile(folder / "a").verify();
}

TEST(TokenFile, HashesDoNotDependOnThePieces) {
  const TemporaryFolder folder;
  std::vector<int32_t> tokens(40'000'000);  // 80 MB: two blocks
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 2654435761U % 50000);
  TokenWriter writer(folder / "a", 50000, "");
  for (size_t at = 0; at < tokens.size();) {
    const size_t size = std::min<size_t>(9'999'991, tokens.size() - at);
    writer.add(std::span(tokens).subspan(at, size));
    at += size;
  }
  writer.finish();
  const TokenFile file(folder / "a");
  EXPECT_EQ(file.facts().block_hashes.size(), 2u);
  file.verify();
  std::filesystem::remove(side_car_path(folder / "a.bin"));
  EXPECT_EQ(TokenFile(folder / "a").facts().block_hashes, file.facts().block_hashes);
}

// ---- a writer that goes on where another one ended

std::string all_bytes(const TemporaryFolder& folder) {
  return get_file(folder / "a.bin") + "|" + get_file(folder / "a.idx") + "|" +
         get_file(folder / "a.bin.meta.toml");
}

TEST(TokenWriter, GoesOnFromEveryCommit) {
  std::vector<Documents> parts{{{1, 2, 3}, {4}}, {{}, {5, 6, 7, 8, 9, 10, 11}}, {{12, 13}}, {{14}}};
  const auto write = [](TokenWriter& writer, const Documents& documents) {
    for (const auto& document : documents) {
      writer.add(document);
      writer.end_document();
    }
  };
  std::string straight;
  {
    const TemporaryFolder folder;
    TokenWriter writer(folder / "a", 100, "t", 3);
    for (const Documents& part : parts) write(writer, part);
    writer.finish();
    straight = all_bytes(folder);
    EXPECT_FALSE(std::filesystem::exists(folder / "a.lengths.partial"));
  }
  for (size_t commit = 0; commit <= parts.size(); ++commit) {
    for (const bool torn : {false, true}) {
      const TemporaryFolder folder;
      TokenWriterState state;
      {
        TokenWriter writer(folder / "a", 100, "t", 3);
        for (size_t i = 0; i < commit; ++i) write(writer, parts[i]);
        if (torn) writer.add(std::vector<int32_t>{20, 21, 22, 23});  // a document that is open
        state = writer.commit();
        writer.keep();
        writer.add(std::vector<int32_t>{70, 71, 72, 73, 74});  // lost with the process
        writer.end_document();
      }
      EXPECT_TRUE(std::filesystem::exists(folder / "a.bin.partial"));
      TokenWriter writer(folder / "a", 100, "t", state, 3);
      EXPECT_EQ(writer.commit(), state);
      if (torn) {
        writer.add(std::vector<int32_t>{24, 25});
        writer.end_document();
      }
      for (size_t i = commit; i < parts.size(); ++i) write(writer, parts[i]);
      writer.finish();
      if (!torn) {
        EXPECT_EQ(all_bytes(folder), straight) << commit;
      }
      const TokenFile file(folder / "a");
      file.verify();
      EXPECT_EQ(file.facts().documents, 5u + (torn ? 1 : 0));
      EXPECT_EQ(file.index()->documents(), file.facts().documents);
    }
  }
}

TEST(TokenWriter, AfterTheFilesHaveTheirNamesThereIsNothingToDo) {
  const TemporaryFolder folder;
  TokenWriterState state;
  {
    TokenWriter writer(folder / "a", 100, "t");
    writer.add(std::vector<int32_t>{1, 2, 3});
    writer.end_document();
    state = writer.commit();
    writer.finish();
  }
  const std::string bytes = all_bytes(folder);
  put_file(folder / "a.lengths.partial", "left over");
  TokenWriter again(folder / "a", 100, "t", state);
  again.finish();
  EXPECT_EQ(all_bytes(folder), bytes);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.lengths.partial"));
}

TEST(TokenWriter, RefusesToGoOnWithoutItsFiles) {
  const TemporaryFolder folder;
  TokenWriterState state;
  {
    TokenWriter writer(folder / "a", 100, "t");
    writer.add(std::vector<int32_t>{1, 2, 3});
    writer.end_document();
    state = writer.commit();
    writer.keep();
  }
  const std::string bin = get_file(folder / "a.bin.partial");
  put_file(folder / "a.bin.partial", bin.substr(0, 5));
  EXPECT_THAT(message_of<DataError>([&] { TokenWriter writer(folder / "a", 100, "t", state); }),
              testing::AllOf(HasSubstr("a.bin.partial: found 5 bytes"), HasSubstr("at least 6")));
  EXPECT_EQ(get_file(folder / "a.bin.partial").size(), 5u) << "nothing is lost by asking";
  std::filesystem::remove(folder / "a.bin.partial");
  EXPECT_THAT(message_of<DataError>([&] { TokenWriter writer(folder / "a", 100, "t", state); }),
              HasSubstr("a.bin.partial: found no such file"));
  put_file(folder / "a.bin.partial", bin);
  std::filesystem::remove(folder / "a.lengths.partial");
  EXPECT_THAT(message_of<DataError>([&] { TokenWriter writer(folder / "a", 100, "t", state); }),
              HasSubstr("a.lengths.partial: found 0 bytes, expected at least 4"));
}

TEST(TokenFile, EmptyIsValid) {
  const TemporaryFolder folder;
  write_documents(folder / "a", {}, 100);
  const TokenFile file(folder / "a");
  EXPECT_EQ(file.tokens(), 0u);
  EXPECT_EQ(file.facts().largest_token, -1);
  file.verify();
}

TEST(TokenFile, TakesAnIndexWithModes) {
  const TemporaryFolder folder;
  write_documents(folder / "a", small, 100);
  put_file(folder / "a.idx", get_file(folder / "a.idx") + std::string(3, '\0'));
  EXPECT_EQ(TokenFile(folder / "a").tokens(), 6u);
}

// ---- damaged indices: 3 sequences; header 34, lengths at 34, offsets at 46, documents at 70, end 102

template <class T>
void store(std::string& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

struct Wrong {
  const char* name;
  std::function<void(std::string& idx, std::string& bin)> change;
  std::vector<std::string> says;
};

std::ostream& operator<<(std::ostream& out, const Wrong& wrong) {
  return out << wrong.name;
}

class WrongIndex : public testing::TestWithParam<Wrong> {};

TEST_P(WrongIndex, IsRefusedWithFileOffsetFoundAndExpected) {
  const TemporaryFolder folder;
  write_documents(folder / "a", small, 100);
  std::string idx = get_file(folder / "a.idx");
  std::string bin = get_file(folder / "a.bin");
  ASSERT_EQ(idx.size(), 102u);
  GetParam().change(idx, bin);
  put_file(folder / "a.idx", idx);
  put_file(folder / "a.bin", bin);
  std::filesystem::remove(side_car_path(folder / "a.bin"));
  const std::string message = message_of<DataError>([&] { TokenFile file(folder / "a"); });
  EXPECT_THAT(message, testing::MatchesRegex(".*a.(idx|bin): byte [0-9]+: found .+, expected .+; .+"));
  for (const std::string& part : GetParam().says) EXPECT_THAT(message, HasSubstr(part));
}

using S = std::string;
const std::vector<Wrong> wrongs{
    {"empty", [](S& i, S&) { i.clear(); }, {"byte 0", "after 0 bytes"}},
    {"one_byte", [](S& i, S&) { i.resize(1); }, {"byte 1"}},
    {"magic", [](S& i, S&) { i[3] = 'X'; }, {"byte 0", "4D 4D 49 58", "4D 4D 49 44 49 44 58 00 00"}},
    {"version", [](S& i, S&) { store<uint64_t>(i, 9, 2); }, {"byte 9", "version 2", "version 1"}},
    {"type_0", [](S& i, S&) { i[17] = 0; }, {"byte 17", "type 0"}},
    {"type_9", [](S& i, S&) { i[17] = 9; }, {"byte 17", "type 9"}},
    {"type_255", [](S& i, S&) { i[17] = '\xFF'; }, {"byte 17", "type 255"}},
    {"float64", [](S& i, S&) { i[17] = 6; }, {"byte 17", "float64"}},
    {"float32", [](S& i, S&) { i[17] = 7; }, {"byte 17", "float32"}},
    {"wider_type", [](S& i, S&) { i[17] = 4; }, {"byte 54", "offset 6 of sequence 1", "12"}},
    {"more_sequences", [](S& i, S&) { store<uint64_t>(i, 18, 6); }, {"byte 18", "6 sequences", "at most 5"}},
    {"most_sequences",
     [](S& i, S&) { store<uint64_t>(i, 18, ~uint64_t{0}); },
     {"byte 18", "18446744073709551615"}},
    {"wrapping_sequences", [](S& i, S&) { store<uint64_t>(i, 18, (uint64_t{1} << 62) + 3); }, {"byte 18"}},
    {"fewer_sequences", [](S& i, S&) { store<uint64_t>(i, 18, 2); }, {"102 bytes", "90"}},
    {"no_documents", [](S& i, S&) { store<uint64_t>(i, 26, 0); }, {"byte 26", "0 document entries"}},
    {"more_documents",
     [](S& i, S&) { store<uint64_t>(i, 26, 5); },
     {"byte 26", "5 document entries", "at most 4"}},
    {"wrapping_documents", [](S& i, S&) { store<uint64_t>(i, 26, (uint64_t{1} << 61) + 4); }, {"byte 26"}},
    {"fewer_documents", [](S& i, S&) { store<uint64_t>(i, 26, 3); }, {"byte 94", "102 bytes", "94"}},
    {"trailing_byte", [](S& i, S&) { i += 'x'; }, {"byte 102", "103 bytes", "102 bytes, or 105"}},
    {"negative_length", [](S& i, S&) { store<int32_t>(i, 38, -1); }, {"byte 38", "length -1 of sequence 1"}},
    {"largest_length", [](S& i, S&) { store<int32_t>(i, 42, 0x7FFFFFFF); }, {"byte 42", "2147483647"}},
    {"length_beyond", [](S& i, S&) { store<int32_t>(i, 42, 2); }, {"byte 42", ".bin of 12 bytes"}},
    {"length_short", [](S& i, S&) { store<int32_t>(i, 42, 0); }, {"byte 70", "end at byte 10", "12 bytes"}},
    {"negative_offset", [](S& i, S&) { store<int64_t>(i, 54, -6); }, {"byte 54", "offset -6"}},
    {"first_offset",
     [](S& i, S&) { store<int64_t>(i, 46, 2); },
     {"byte 46", "offset 2 of sequence 0", "expected 0"}},
    {"falling_offset",
     [](S& i, S&) { store<int64_t>(i, 62, 0); },
     {"byte 62", "offset 0 of sequence 2", "10"}},
    {"huge_offset", [](S& i, S&) { store<int64_t>(i, 62, INT64_MAX); }, {"byte 62", "9223372036854775807"}},
    {"first_document", [](S& i, S&) { store<int64_t>(i, 70, 1); }, {"byte 70", "first document entry 1"}},
    {"falling_document", [](S& i, S&) { store<int64_t>(i, 86, 0); }, {"byte 86", "entry 0 after 1"}},
    {"negative_document", [](S& i, S&) { store<int64_t>(i, 78, -1); }, {"byte 78", "-1"}},
    {"document_beyond", [](S& i, S&) { store<int64_t>(i, 86, 4); }, {"byte 86", "entry 4", "at most 3"}},
    {"last_document", [](S& i, S&) { store<int64_t>(i, 94, 2); }, {"byte 94", "last document entry 2", "3"}},
    {"bin_empty", [](S&, S& b) { b.clear(); }, {"a.idx: byte 34", ".bin of 0 bytes"}},
    {"bin_short", [](S&, S& b) { b.resize(11); }, {"byte 42", ".bin of 11 bytes"}},
    {"bin_long", [](S&, S& b) { b += "xx"; }, {"12", "14 bytes"}},
};

INSTANTIATE_TEST_SUITE_P(Kinds, WrongIndex, testing::ValuesIn(wrongs),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST(TokenFile, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  write_documents(folder / "a", small, 100);
  for (const char* name : {"a.idx", "a.bin"}) {
    const std::string whole = get_file(folder / name);
    for (size_t size = 0; size < whole.size(); ++size) {
      put_file(folder / name, whole.substr(0, size));
      EXPECT_THROW(TokenFile file(folder / "a"), DataError) << name << " of " << size << " bytes";
    }
    put_file(folder / name, whole);
  }
  TokenFile(folder / "a").verify();
}

TEST(TokenFile, DamagedBytesAreRefusedOrRead) {
  const TemporaryFolder folder;
  write_documents(folder / "a", {{1, 2, 3}, {99, 0}, {7}, {8, 9, 10, 11}}, 100);
  std::filesystem::remove(side_car_path(folder / "a.bin"));
  const std::string good = get_file(folder / "a.idx");
  std::mt19937_64 random(17);
  int refused = 0;
  for (int round = 0; round < 600; ++round) {
    std::string idx = good;
    for (size_t changes = random() % 3 + 1; changes > 0; --changes) {
      const size_t at = random() % idx.size();
      idx[at] = random() % 2 == 0 ? static_cast<char>(random())
                                  : static_cast<char>(idx[at] ^ (1 << (random() % 8)));
    }
    put_file(folder / "a.idx", idx);
    try {
      const TokenFile file(folder / "a");
      std::vector<int32_t> tokens(file.tokens());
      file.read(0, tokens, 1 << 30);
      for (uint64_t d = 0; d <= file.index()->documents(); ++d) {
        ASSERT_LE(file.index()->document_start(d), file.tokens());
      }
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
}

// ---- tokens and side-cars

TEST(TokenFile, ATokenOutsideTheVocabularyIsFoundWithItsOffset) {
  const TemporaryFolder folder;
  write_documents(folder / "a", small, 100);
  const TokenFile file(folder / "a");
  std::vector<int32_t> tokens(4);
  EXPECT_THAT(message_of<DataError>([&] { file.read(1, tokens, 99); }),
              testing::AllOf(HasSubstr("a.bin: byte 6"), HasSubstr("token id 99"), HasSubstr("0 to 98")));
  file.read(4, std::span(tokens).first(2), 99);
  EXPECT_THAT(message_of<DataError>([&] { file.require_vocabulary(99); }), HasSubstr("token ids up to 99"));
  file.require_vocabulary(100);
  EXPECT_THROW(file.read(3, tokens, 100), std::logic_error);
}

TEST(TokenFile, ScanningFindsNegativeAndHugeIds) {
  const TemporaryFolder folder;
  write_documents(folder / "a", {{5, 6, 7}}, 70000);
  std::filesystem::remove(side_car_path(folder / "a.bin"));
  const std::string good = get_file(folder / "a.bin");
  std::string bin = good;
  store<int32_t>(bin, 4, -6);
  put_file(folder / "a.bin", bin);
  EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / "a"); }),
              testing::AllOf(HasSubstr("a.bin: byte 4"), HasSubstr("token id -6")));
  std::string idx = get_file(folder / "a.idx");
  idx[17] = 5;  // int64: 5 and 6 as one
  store<int32_t>(idx, 34, 1);
  put_file(folder / "a.idx", idx);
  put_file(folder / "a.bin", good.substr(0, 8));
  EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / "a"); }),
              HasSubstr("token id 25769803781"));
}

TEST(TokenFile, VerifyFindsAChangedByte) {
  const TemporaryFolder folder;
  write_documents(folder / "a", small, 100);
  std::string bin = get_file(folder / "a.bin");
  bin[4] = 4;
  put_file(folder / "a.bin", bin);
  const TokenFile file(folder / "a");
  EXPECT_THAT(message_of<DataError>([&] { file.verify(); }),
              testing::AllOf(HasSubstr("a.bin: byte 0"), HasSubstr("XXH3")));
}

struct WrongCar {
  const char* name;
  const char* from;
  const char* to;
  const char* says;
};

TEST(SideCar, WrongOnesAreRefused) {
  const TemporaryFolder folder;
  write_documents(folder / "a", small, 100);
  const std::string path = side_car_path(folder / "a.bin");
  const std::string good = get_file(path);
  const WrongCar cases[] = {
      {"no TOML", "schema = 1", "schema = ", "meta.toml:2:"},
      {"schema", "schema = 1", "schema = 2", "found 2, expected 1"},
      {"no key", "tokens = 6", "", "tokens: found nothing"},
      {"tokens", "tokens = 6", "tokens = 7", "tokens = 7"},
      {"negative", "tokens = 6", "tokens = -6", "found -6, expected an integer of at least 0"},
      {"type", "tokens = 6", "tokens = \"6\"", "found \"6\""},
      {"documents", "documents = 3", "documents = 2", "documents = 2"},
      {"dtype", "uint16", "int32", "dtype = int32"},
      {"unknown dtype", "uint16", "bf16", "found \"bf16\""},
      {"block", "hash_block_bytes = 67108864", "hash_block_bytes = 5", "found 5"},
      {"hash", "[\n  \"", "[\n  \"zz", "16 hexadecimal digits"},
      {"hash type", "[\n  \"", "[\n  5,\n  \"", "16 hexadecimal digits"},
      {"no list", "xxh3_64 = [", "xxh3_64 = 1\nx = [", "a list of hashes"},
      {"hashes", "[\n  \"", "[\n  \"0000000000000000\",\n  \"", "number of hashes = 2"},
  };
  for (const WrongCar& wrong : cases) {
    std::string text = good;
    const size_t at = text.find(wrong.from);
    ASSERT_NE(at, std::string::npos) << wrong.name;
    text.replace(at, std::strlen(wrong.from), wrong.to);
    put_file(path, text);
    EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / "a"); }), HasSubstr(wrong.says))
        << wrong.name;
  }
  std::string text = good;
  text.replace(text.find("largest_token = 99"), 18, "largest_token = 98");
  put_file(path, text);
  EXPECT_THAT(message_of<DataError>([&] { TokenFile(folder / "a").verify(); }),
              HasSubstr("largest_token = 98"));
}

TEST(SideCar, SurvivesWritingAndReading) {
  const TemporaryFolder folder;
  SideCar facts;
  facts.type = TokenType::int64;
  facts.tokens = uint64_t{1} << 40;
  facts.documents = 5;
  facts.vocabulary = 128256;
  facts.tokenizer = "abc";
  facts.largest_token = 128255;
  facts.block_hashes = {0, ~uint64_t{0}, 0x0123456789ABCDEF};
  write_side_car(folder / "x", facts);
  EXPECT_EQ(read_side_car(folder / "x"), facts);
  EXPECT_EQ(read_side_car(folder / "y"), std::nullopt);
}

TEST(TokenFile, MissingFilesAreNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / "none"); }),
              testing::AllOf(HasSubstr("none.bin"), HasSubstr("No such file")));
  write_documents(folder / "a", small, 100);
  std::filesystem::remove(folder / "a.idx");
  EXPECT_THAT(message_of<DataError>([&] { TokenFile file(folder / "a"); }), HasSubstr("a.idx"));
}

}  // namespace
}  // namespace penstock::data
