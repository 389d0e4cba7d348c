// Loading: bit by bit what was saved, in slices; whatever changed in a file is found and named.
#include "trainer/checkpoint/checkpoint_reader.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/device/error.h"
#include "tests/trainer/checkpoint/small_run.h"
#include "tests/trainer/checkpoint/temporary_folder.h"
#include "trainer/checkpoint/checkpoint_error.h"

namespace penstock::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SavedRun : public ::testing::Test {
 protected:
  SavedRun()
      : checkpoints_(folder_.path() + "/checkpoints"),
        writer_(checkpoints_, claim_attempt(checkpoints_).attempt) {
    SmallRun(10).save(writer_);
    SmallRun(20).save(writer_);
  }

  std::string step(int64_t n) const { return checkpoints_ + "/step-000000" + std::to_string(n); }

  std::string why_none_opens() const {
    try {
      latest(checkpoints_, Depth::full);
      return "";
    } catch (const CheckpointError& error) {
      return error.what();
    }
  }

  TemporaryFolder folder_;
  std::string checkpoints_;
  CheckpointWriter writer_;
};

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.file_size() > 0) files.push_back(entry.path().string());
  }
  return files;
}

TEST_F(SavedRun, ComesBackBitByBit) {
  const Latest found = latest(checkpoints_, Depth::full);
  ASSERT_TRUE(found.checkpoint);
  EXPECT_EQ(SmallRun(20).difference(*found.checkpoint), "");
  EXPECT_EQ(SmallRun(10).difference(Checkpoint::open(step(10), Depth::full)), "");
  EXPECT_EQ(found.checkpoint->manifest().attempt, 1u);
  EXPECT_EQ(found.checkpoint->manifest().state.at("spikes").at("count").get<uint64_t>(),
            18446744073709551615u);
  const std::vector<Listed> listed = list(checkpoints_, Depth::full);
  ASSERT_THAT(listed, SizeIs(2));
  EXPECT_EQ(listed[0].step, 10);
  EXPECT_EQ(listed[1].step, 20);
  EXPECT_EQ(listed[1].problem, "");
}

TEST_F(SavedRun, ReadsAnySlice) {
  const Checkpoint checkpoint = Checkpoint::open(step(20), Depth::quick);
  std::vector<uint32_t> all(42);
  checkpoint.read("layers.0.weight", DType::fp32, 0, 42, all.data());
  for (int64_t begin = 0; begin <= 42; ++begin) {
    for (int64_t count = 0; begin + count <= 42; ++count) {
      std::vector<uint32_t> slice(static_cast<size_t>(count) + 1, 7u);
      checkpoint.read("layers.0.weight", DType::fp32, begin, count, slice.data());
      ASSERT_TRUE(std::equal(slice.begin(), slice.end() - 1, all.begin() + begin)) << begin << "+" << count;
      ASSERT_EQ(slice.back(), 7u) << "written past the end";
    }
  }
  EXPECT_THROW(checkpoint.read("layers.0.weight", DType::fp32, 40, 3, all.data()), UsageError);
  EXPECT_THROW(checkpoint.read("layers.0.weight", DType::fp32, -1, 1, all.data()), UsageError);
  EXPECT_THROW(checkpoint.read("layers.0.weight", DType::bf16, 0, 1, all.data()), CheckpointError);
  EXPECT_THROW(checkpoint.read("layers.1.weight", DType::fp32, 0, 1, all.data()), CheckpointError);
}

TEST_F(SavedRun, NamesTheDifferencesToTheModel) {
  const Checkpoint checkpoint = Checkpoint::open(step(20), Depth::quick);
  EXPECT_THAT(checkpoint.differences({{"embedding.weight", DType::bf16, {5, 3}},
                                      {"layers.0.weight", DType::fp32, {6, 7}},
                                      {"norm", DType::fp32, {}},
                                      {"state.steps", DType::i64, {2}}}),
              IsEmpty());
  EXPECT_THAT(checkpoint.differences({{"embedding.weight", DType::fp32, {5, 3}},
                                      {"layers.0.weight", DType::fp32, {7, 6}},
                                      {"layers.1.weight", DType::fp32, {6, 7}},
                                      {"norm", DType::fp32, {}}}),
              ElementsAre("tensor embedding.weight: found bf16 (5, 3), expected fp32 (5, 3)",
                          "tensor layers.0.weight: found fp32 (6, 7), expected fp32 (7, 6)",
                          "tensor layers.1.weight: missing, expected fp32 (6, 7)",
                          "tensor state.steps: found i64 (2), expected no such tensor"));
}

TEST_F(SavedRun, EveryFlippedBitIsFoundAndNamed) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<std::string> files = files_of(step(20));
  ASSERT_THAT(files, SizeIs(3));
  for (const std::string& file : files) {
    const std::string bytes = read_bytes(file);
    for (int trial = 0; trial < 300; ++trial) {
      const size_t at = random() % bytes.size();
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << (random() % 8)));
      write_bytes(file, damaged);
      const std::vector<Damage> damages = verify(step(20), Depth::full);
      ASSERT_THAT(damages, SizeIs(1)) << file << " byte " << at;
      EXPECT_THAT(to_string(damages[0]), HasSubstr(file));
    }
    write_bytes(file, bytes);
  }
  EXPECT_THAT(verify(step(20), Depth::full), IsEmpty());
}

TEST_F(SavedRun, DamagedValuesAreNamedByTensorAndThePreviousCheckpointIsTaken) {
  const std::string shard = step(20) + "/shard-00001.safetensors";
  const Checkpoint whole = Checkpoint::open(step(20), Depth::full);
  const Piece piece = whole.find("layers.0.weight")->pieces.at(1);
  ASSERT_EQ(piece.shard, 1u);
  std::string bytes = read_bytes(shard);
  bytes[piece.begin + 5] ^= 1;
  write_bytes(shard, bytes);
  const std::vector<Damage> damages = verify(step(20), Depth::full);
  ASSERT_THAT(damages, SizeIs(1));
  EXPECT_EQ(damages[0].file, shard);
  EXPECT_EQ(damages[0].offset, piece.begin);
  EXPECT_EQ(damages[0].piece, "layers.0.weight[20:42]");
  EXPECT_THAT(verify(step(20), Depth::quick), IsEmpty());  // what quick does not look at
  const Latest found = latest(checkpoints_, Depth::full);
  EXPECT_EQ(found.checkpoint->manifest().step, 10);
  EXPECT_THAT(found.passed_over,
              ElementsAre(AllOf(
                  HasSubstr(shard + ": byte " + std::to_string(piece.begin) + ": layers.0.weight[20:42]"),
                  HasSubstr("found values with hash "), HasSubstr("expected " + piece.hash))));
  EXPECT_THAT(list(checkpoints_, Depth::full)[1].problem, HasSubstr("layers.0.weight[20:42]"));
}

TEST_F(SavedRun, EveryTruncationIsFoundAlsoByTheQuickLook) {
  for (const std::string& file : files_of(step(20))) {
    const std::string bytes = read_bytes(file);
    for (size_t size = 0; size < bytes.size(); size += 37) {
      write_bytes(file, bytes.substr(0, size));
      ASSERT_THAT(verify(step(20), Depth::quick), SizeIs(1)) << file << " cut to " << size;
    }
    write_bytes(file, bytes + "x");
    EXPECT_THAT(verify(step(20), Depth::quick), SizeIs(1)) << file;
    write_bytes(file, bytes);
  }
}

TEST_F(SavedRun, MissingExtraSwappedAndForeignFilesAreFound) {
  const std::string first = step(20) + "/shard-00000.safetensors";
  const std::string second = step(20) + "/shard-00001.safetensors";
  const auto quick_words = [&] {
    std::string words;
    for (const Damage& damage : verify(step(20), Depth::quick)) words += to_string(damage) + "\n";
    return words;
  };
  fs::rename(first, folder_.path() + "/aside");
  EXPECT_THAT(quick_words(), AllOf(HasSubstr(first), HasSubstr("No such file")));
  fs::rename(second, first);
  fs::rename(folder_.path() + "/aside", second);
  EXPECT_THAT(quick_words(), AllOf(HasSubstr(first), HasSubstr(second)));
  fs::rename(first, folder_.path() + "/aside");
  fs::rename(second, first);
  fs::rename(folder_.path() + "/aside", second);
  EXPECT_EQ(quick_words(), "");
  fs::copy(first, step(20) + "/shard-00002.safetensors");
  EXPECT_THAT(quick_words(),
              HasSubstr("shard-00002.safetensors: found a shard that the manifest does not name"));
  fs::remove(step(20) + "/shard-00002.safetensors");
  write_bytes(step(20) + "/notes.txt", "mine");
  EXPECT_EQ(quick_words(), "");
  fs::remove(second);
  fs::create_directory(second);
  EXPECT_THAT(quick_words(), AllOf(HasSubstr(second), HasSubstr("a folder")));
}

TEST_F(SavedRun, AShardOfAnotherStepIsFound) {
  // Same heads, same sizes: only the values' hashes can tell.
  fs::copy(step(10) + "/shard-00000.safetensors", step(20) + "/shard-00000.safetensors",
           fs::copy_options::overwrite_existing);
  std::vector<std::string> pieces;
  for (const Damage& damage : verify(step(20), Depth::full)) pieces.push_back(damage.piece);
  EXPECT_THAT(pieces, ElementsAre("embedding.weight", "layers.0.weight[0:20]"));
}

TEST_F(SavedRun, AFolderUnderAnotherStepsNameIsFound) {
  fs::rename(step(20), step(30));
  EXPECT_THAT(to_string(verify(step(30), Depth::quick).at(0)), HasSubstr("found step 20, expected 30"));
  fs::rename(step(30), folder_.path() + "/exported");  // elsewhere it may have any name
  EXPECT_EQ(SmallRun(20).difference(Checkpoint::open(folder_.path() + "/exported", Depth::full)), "");
}

TEST_F(SavedRun, OnlyDamagedOnesAreAnErrorNeverAFreshStart) {
  for (const int64_t n : {10, 20}) write_bytes(step(n) + "/manifest.json", "garbage");
  EXPECT_THAT(why_none_opens(),
              AllOf(HasSubstr("only damaged checkpoints"), HasSubstr(step(10) + "/manifest.json"),
                    HasSubstr(step(20) + "/manifest.json")));
  EXPECT_EQ(CheckpointError::exit_code, 4);
  fs::remove_all(step(10));
  fs::remove_all(step(20));
  EXPECT_EQ(why_none_opens(), "");
  EXPECT_FALSE(latest(checkpoints_, Depth::full).checkpoint);
  EXPECT_FALSE(latest(folder_.path() + "/never-made", Depth::full).checkpoint);
}

TEST_F(SavedRun, WhatCannotBeReadIsSaidSo) {
  const uid_t me = geteuid();
  const auto as_user_without_rights = [&](const std::string& path, const auto& check) {
    ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    ASSERT_EQ(chmod(path.c_str(), 0), 0);
    if (me == 0) {
      ASSERT_EQ(seteuid(65534), 0);
    }
    check();
    ASSERT_EQ(seteuid(me), 0);
    ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  };
  as_user_without_rights(step(20) + "/shard-00000.safetensors", [&] {
    EXPECT_THAT(to_string(verify(step(20), Depth::quick).at(0)),
                AllOf(HasSubstr(step(20) + "/shard-00000.safetensors"), HasSubstr("Permission denied")));
    EXPECT_EQ(latest(checkpoints_, Depth::full).checkpoint->manifest().step, 10);
  });
  as_user_without_rights(checkpoints_, [&] {
    EXPECT_THROW(list(checkpoints_, Depth::quick), CheckpointError);
    EXPECT_THAT(why_none_opens(), AllOf(HasSubstr(checkpoints_), HasSubstr("Permission denied")));
    EXPECT_THROW(claim_attempt(checkpoints_), SaveError);
  });
}

}  // namespace
}  // namespace penstock::checkpoint
