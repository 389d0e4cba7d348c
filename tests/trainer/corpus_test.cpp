#include "trainer/corpus.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_error.h"
#include "tests/data/temporary_folder.h"
#include "trainer/job/read_job.h"

namespace penstock {
namespace {

TEST(MaskDocuments, RestartsPositionsAndHidesOtherDocuments) {
  const std::vector<int32_t> document_starts{2, 5};
  std::vector<int32_t> positions(7);
  std::vector<int32_t> starts(7);
  std::vector<int32_t> targets{10, 11, 12, 13, 14, 15, 16};
  mask_documents(document_starts, positions, starts, targets);
  EXPECT_EQ(positions, (std::vector<int32_t>{0, 1, 0, 1, 2, 0, 1}));
  EXPECT_EQ(starts, (std::vector<int32_t>{0, 0, 2, 2, 2, 5, 5}));
  EXPECT_EQ(targets, (std::vector<int32_t>{10, -1, 12, 13, -1, 15, 16}));
}

TEST(MaskDocuments, ADocumentThatStartsWithTheSampleMasksNothing) {
  std::vector<int32_t> positions(3);
  std::vector<int32_t> starts(3);
  std::vector<int32_t> targets{1, 2, 3};
  mask_documents(std::vector<int32_t>{0}, positions, starts, targets);
  EXPECT_EQ(positions, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(starts, (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(targets, (std::vector<int32_t>{1, 2, 3}));
}

TEST(MaskDocuments, EveryTokenItsOwnDocument) {
  std::vector<int32_t> positions(3, 9);
  std::vector<int32_t> starts(3, 9);
  std::vector<int32_t> targets{1, 2, 3};
  mask_documents(std::vector<int32_t>{0, 1, 2}, positions, starts, targets);
  EXPECT_EQ(positions, (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(starts, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(targets, (std::vector<int32_t>{-1, -1, 3}));
}

Job masked_job(const std::string& file) {
  return parse_job(R"([run]
name = "x"
steps = 1
[model]
family = "gpt2"
layers = 1
hidden_size = 8
heads = 1
sequence_length = 5
vocab_size = 50
[data]
train = [")" + file + R"("]
document_mask = true
[batch]
global = 1
micro = 1
[learning_rate]
max = 1e-3
)",
                   "job", {});
}

TEST(Corpus, MasksTheDocumentsOfAFileWithoutAnIndex) {
  const tests::TemporaryFolder folder;
  std::string bytes;
  for (const char token : {1, 2, 9, 4, 9, 6}) bytes += {token, '\0'};
  tests::put_file(folder / "a.bin", bytes);
  const auto say = [&](std::optional<data::DocumentMark> mark) {
    std::filesystem::remove(data::side_car_path(folder / "a.bin"));
    const data::TokenFile file(folder / "a", data::HeaderlessFile{data::TokenType::uint16, mark});
    data::write_side_car(file.bin_path(), file.facts());
  };
  say({});
  EXPECT_THAT(
      tests::message_of<data::DataError>([&] { Corpus corpus(masked_job(folder / "a"), nullptr, true); }),
      testing::AllOf(testing::HasSubstr("nothing that says where documents begin"),
                     testing::HasSubstr("--headerless uint16 --document-token ID")));
  say(data::DocumentMark{9, false});
  Corpus corpus(masked_job(folder / "a"), nullptr, true);
  std::vector<std::vector<int32_t>> rows(4, std::vector<int32_t>(5));
  std::vector<int64_t> samples(1);
  HostMicroBatch batch{rows[0], rows[1], rows[2], rows[3], samples};
  corpus.read_train(0, batch);
  EXPECT_EQ(rows[0], (std::vector<int32_t>{1, 2, 9, 4, 9}));
  EXPECT_EQ(rows[1], (std::vector<int32_t>{2, 9, -1, 9, 6}));
  EXPECT_EQ(rows[2], (std::vector<int32_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(rows[3], (std::vector<int32_t>{0, 0, 0, 3, 3}));
}

// A mask that finds no borders would be none, in silence.
TEST(Corpus, WarnsOfAFileWhoseMarkDoesNotOccur) {
  const tests::TemporaryFolder folder;
  std::vector<int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 6;
  const std::string head(reinterpret_cast<const char*>(header.data()), header.size() * sizeof(int32_t));
  const auto warnings = [&](const std::string& tokens, const Job& job) {
    tests::put_file(folder / "a.bin", head + tokens);
    return Corpus(job, nullptr, true).warnings();
  };
  const std::string without{1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0};
  Job job = masked_job(folder / "a");
  job.model.vocab_size = 50257;
  EXPECT_THAT(warnings(without, job),
              testing::ElementsAre(testing::HasSubstr("a.bin: token 50256, which separates documents, does "
                                                      "not occur: data.document_mask takes")));
  EXPECT_THAT(warnings("\x50\xC4" + without.substr(2), job), testing::IsEmpty());
  job.data.document_mask = false;
  EXPECT_THAT(warnings(without, job), testing::IsEmpty());
}

TEST(Corpus, HintsAtHowATextIsPrepared) {
  const tests::TemporaryFolder folder;
  tests::put_file(folder / "book.txt", "once upon a time");
  EXPECT_THAT(tests::message_of<data::DataError>(
                  [&] { Corpus corpus(masked_job(folder / "book.txt"), nullptr, true); }),
              testing::HasSubstr("penstock data prepare --input " + (folder / "book.txt")));
}

}  // namespace
}  // namespace penstock
