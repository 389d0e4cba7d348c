// Saving: many ranks, attempts that fence each other off, pruning that touches only what the run wrote.
#include "trainer/checkpoint/checkpoint_writer.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include "kernels/device/error.h"
#include "tests/trainer/checkpoint/small_run.h"
#include "tests/trainer/checkpoint/temporary_folder.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/room.h"
#include "trainer/checkpoint/step_folders.h"

namespace penstock::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Saving : public ::testing::Test {
 protected:
  Saving() : checkpoints_(folder_.path() + "/run/checkpoints") {}

  CheckpointWriter next_attempt() const { return {checkpoints_, claim_attempt(checkpoints_).attempt}; }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> steps;
    for (const Listed& listed : list(checkpoints_, Depth::full)) {
      EXPECT_EQ(listed.problem, "");
      steps.push_back(listed.step);
    }
    return steps;
  }

  TemporaryFolder folder_;
  std::string checkpoints_;
};

template <class Work>
std::string save_error(Work work) {
  try {
    work();
    return "";
  } catch (const SaveError& error) {
    return error.what();
  }
}

TEST_F(Saving, RanksWriteAtOnceFromTheirThreads) {
  const CheckpointWriter writer = next_attempt();
  const SmallRun run(5);
  writer.begin(5);
  std::vector<std::string> entries(2);
  {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        entries[static_cast<size_t>(rank)] = to_text(writer.write(5, rank, run.sources(rank)));
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
  writer.commit(run.manifest(), {shard_entry_from_text(entries[0]), shard_entry_from_text(entries[1])});
  EXPECT_EQ(run.difference(*latest(checkpoints_, Depth::full).checkpoint), "");
  EXPECT_EQ(fs::file_size(checkpoints_ + "/step-00000005/shard-00001.safetensors"),
            shard_bytes(run.sources(1)));
  EXPECT_THROW(shard_entry_from_text(entries[0].substr(1)), CheckpointError);
}

TEST_F(Saving, AnOlderAttemptCannotCommit) {
  const CheckpointWriter old = next_attempt();
  SmallRun(1).save(old);
  const SmallRun run(2);
  old.begin(2);
  const std::vector<ShardEntry> entries{old.write(2, 0, run.sources(0)), old.write(2, 1, run.sources(1))};
  const std::string parked = folder_.path() + "/parked";
  fs::rename(checkpoints_ + "/.tmp-step-00000002-1", parked);
  const CheckpointWriter young = next_attempt();
  fs::rename(parked, checkpoints_ + "/.tmp-step-00000002-1");  // as if it had been written after the clean-up
  EXPECT_THAT(save_error([&] { old.commit(run.manifest(), entries); }),
              HasSubstr("found attempt 2, expected 1: the run was started again elsewhere"));
  EXPECT_THAT(steps(), ElementsAre(1));
  SmallRun(2).save(young);
  EXPECT_THAT(steps(), ElementsAre(1, 2));
  EXPECT_EQ(latest(checkpoints_, Depth::full).checkpoint->manifest().attempt, 2u);
}

TEST_F(Saving, AttemptsGoUpEvenWithoutTheirFile) {
  EXPECT_EQ(claim_attempt(checkpoints_).attempt, 1u);
  EXPECT_EQ(claim_attempt(checkpoints_).attempt, 2u);
  const CheckpointWriter third = next_attempt();
  third.begin(8);
  fs::remove(checkpoints_ + "/attempt");
  const Claim claim = claim_attempt(checkpoints_);
  EXPECT_EQ(claim.attempt, 4u);
  EXPECT_THAT(claim.notes, ElementsAre(HasSubstr("deleted the unfinished checkpoint " + checkpoints_)));
  std::ofstream(checkpoints_ + "/attempt") << "four\n";
  EXPECT_THAT(save_error([&] { claim_attempt(checkpoints_); }),
              AllOf(HasSubstr(checkpoints_ + "/attempt: byte 0"), HasSubstr("expected the number")));
}

TEST_F(Saving, TheFolderMustBeOne) {
  std::ofstream(folder_.path() + "/run") << "a file";
  EXPECT_THAT(save_error([&] { claim_attempt(checkpoints_); }), HasSubstr(checkpoints_));
}

TEST_F(Saving, TooLittleSpaceIsRefusedWithTheNumbers) {
  claim_attempt(checkpoints_);
  EXPECT_EQ(check_space(checkpoints_, 1, 2), "");
  const auto refused = [&](const std::string& checkpoints, uint64_t bytes) {
    return save_error([&] { ADD_FAILURE() << check_space(checkpoints, bytes, 2); });
  };
  EXPECT_THAT(refused(checkpoints_, uint64_t{1} << 62),
              AllOf(HasSubstr(checkpoints_), HasSubstr("expected at least 4611686018427387904")));
  EXPECT_THAT(refused(checkpoints_ + "/none", 1), HasSubstr("No such file"));
}

TEST_F(Saving, TooLittleSpaceForAllThatIsKeptIsAWarningWithTheNumbers) {
  struct statvfs status = {};
  ASSERT_EQ(statvfs(folder_.path().c_str(), &status), 0);
  // Another process may take or give back space meanwhile: far from both borders.
  const uint64_t third = static_cast<uint64_t>(status.f_bavail) * status.f_frsize / 3;
  const CheckpointWriter writer = next_attempt();
  EXPECT_THAT(check_space(checkpoints_, third, 3),
              AllOf(HasSubstr(checkpoints_), HasSubstr("4 more checkpoints")));
  for (const int64_t step : {1, 2, 3, 4}) SmallRun(step).save(writer);
  EXPECT_EQ(check_space(checkpoints_, third, 3), "") << "all are there, and there is room for one more";
}

TEST_F(Saving, ARankMustSeeTheFolderOfItsAttempt) {
  const uint64_t attempt = claim_attempt(checkpoints_).attempt;
  check_reachable(checkpoints_, attempt);
  EXPECT_THAT(save_error([&] { check_reachable(checkpoints_ + "/none", attempt); }),
              AllOf(HasSubstr(checkpoints_ + "/none"), HasSubstr("share")));
}

TEST_F(Saving, RanksThatDoNotFitTogetherAreRefused) {
  const CheckpointWriter writer = next_attempt();
  const SmallRun run(1);
  const auto merged_words = [&](const std::vector<ShardEntry>& entries) -> std::string {
    try {
      merge(entries);
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  writer.begin(1);
  const ShardEntry first = writer.write(1, 0, run.sources(0));
  const ShardEntry second = writer.write(1, 1, run.sources(1));
  EXPECT_EQ(merged_words({first, second}), "");
  EXPECT_THAT(merged_words({first}), HasSubstr("tensor layers.0.weight (6, 7): 20 of 42 elements held"));
  EXPECT_THAT(merged_words({first, first, second}), HasSubstr("tensor embedding.weight"));
  ShardEntry other = second;
  other.held.at(0).shape = {7, 6};
  for (ShardEntry::Held& held : other.held) {
    if (held.name == "layers.0.weight") held.shape = {7, 6};
  }
  EXPECT_THAT(merged_words({first, other}),
              HasSubstr("shard-00001.safetensors holds fp32 (7, 6), an earlier shard fp32 (6, 7)"));

  fs::resize_file(checkpoints_ + "/.tmp-step-00000001-1/shard-00001.safetensors", 10);
  EXPECT_THAT(
      save_error([&] {
        writer.commit(run.manifest(), {first, second});
      }),
      AllOf(HasSubstr("shard-00001.safetensors: found 10 bytes"), HasSubstr("as its rank wrote them")));
  fs::remove(checkpoints_ + "/.tmp-step-00000001-1/shard-00001.safetensors");
  EXPECT_THAT(save_error([&] {
                writer.commit(run.manifest(), {first, second});
              }),
              HasSubstr("shared file system"));
  EXPECT_THAT(steps(), IsEmpty());
}

TEST_F(Saving, SourcesAreChecked) {
  const CheckpointWriter writer = next_attempt();
  writer.begin(1);
  float value = 0;
  const auto refused = [&](const std::function<void(Source&)>& change) {
    Source source = whole("w", Tensor(&value, DType::fp32, {1}));
    change(source);
    EXPECT_THROW(writer.write(1, 0, {source}), UsageError);
  };
  refused([](Source& s) { s.name = ""; });
  refused([](Source& s) { s.name = "__metadata__"; });
  refused([](Source& s) { s.data = nullptr; });
  refused([](Source& s) { s.count = 2; });
  refused([](Source& s) { s.offset = 1; });
  refused([](Source& s) { s.offset = -1; });
  const Source source = whole("w", Tensor(&value, DType::fp32, {1}));
  EXPECT_THROW(writer.write(1, 0, {source, source}), UsageError);
}

TEST_F(Saving, PruningKeepsTheLastAndTheMultiples) {
  const CheckpointWriter writer = next_attempt();
  for (int64_t step = 1; step <= 10; ++step) SmallRun(step).save(writer);
  EXPECT_THAT(writer.prune(8, 2, 3), ElementsAre(HasSubstr("deleted"), HasSubstr("00000004"),
                                                 HasSubstr("00000002"), HasSubstr("00000001")));
  EXPECT_THAT(steps(), ElementsAre(3, 6, 7, 8, 9, 10));  // 9 and 10 are not this save's to judge
  EXPECT_EQ(writer.prune(10, 2, 0).size(), 4u);
  EXPECT_THAT(steps(), ElementsAre(9, 10));
  EXPECT_THAT(writer.prune(10, 2, 0), IsEmpty());
}

TEST_F(Saving, DamagedCheckpointsDoNotCountAsKept) {
  const CheckpointWriter writer = next_attempt();
  for (int64_t step = 1; step <= 3; ++step) SmallRun(step).save(writer);
  fs::resize_file(checkpoints_ + "/step-00000003/shard-00000.safetensors", 10);
  EXPECT_THAT(writer.prune(3, 2, 0), IsEmpty());
  EXPECT_TRUE(fs::exists(checkpoints_ + "/step-00000001/manifest.json"));
}

TEST_F(Saving, WhatTheRunDidNotWriteStays) {
  const CheckpointWriter writer = next_attempt();
  for (int64_t step = 1; step <= 4; ++step) SmallRun(step).save(writer);
  std::ofstream(checkpoints_ + "/step-00000001/notes.txt") << "mine";
  fs::create_directory(checkpoints_ + "/step-00000002/plots");
  fs::create_directories(checkpoints_ + "/.tmp-step-00000009-1/mine");
  fs::create_directories(checkpoints_ + "/step-7");
  std::ofstream(checkpoints_ + "/.tmp-step-00000008-1") << "a file";
  EXPECT_THAT(writer.prune(4, 2, 0), ElementsAre(AllOf(HasSubstr("kept "), HasSubstr("holds plots")),
                                                 AllOf(HasSubstr("kept "), HasSubstr("holds notes.txt"))));
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(claim_attempt(checkpoints_).notes, ElementsAre(HasSubstr("left over, not deleted")));
  for (const char* kept : {"/step-00000001/notes.txt", "/step-00000002/plots", "/.tmp-step-00000009-1/mine",
                           "/step-7", "/.tmp-step-00000008-1"}) {
    EXPECT_TRUE(fs::exists(checkpoints_ + kept)) << kept;
  }
}

TEST_F(Saving, ACheckpointMovedBehindALinkIsReadButNeverDeleted) {
  const CheckpointWriter writer = next_attempt();
  for (int64_t step = 1; step <= 3; ++step) SmallRun(step).save(writer);
  fs::rename(checkpoints_ + "/step-00000001", folder_.path() + "/moved");
  fs::create_directory_symlink(folder_.path() + "/moved", checkpoints_ + "/step-00000001");
  EXPECT_THAT(writer.prune(3, 2, 0), ElementsAre(HasSubstr("is a symbolic link")));
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3));
}

TEST(StepFolders, NamesAreReadOnlyInTheirOneSpelling) {
  using Kind = StepFolder::Kind;
  for (const Kind kind : {Kind::complete, Kind::temporary, Kind::outgoing}) {
    for (const int64_t step : {int64_t{0}, int64_t{100}, int64_t{123456789}}) {
      const auto folder = parse_name(name_of(kind, step, 12));
      ASSERT_TRUE(folder) << name_of(kind, step, 12);
      EXPECT_EQ(folder->kind, kind);
      EXPECT_EQ(folder->step, step);
      EXPECT_EQ(folder->attempt, kind == Kind::complete ? 0u : 12u);
    }
  }
  EXPECT_EQ(name_of(Kind::complete, 100, 0), "step-00000100");
  for (const char* other : {"step-100", "step-00000100x", "step-+0000100", "step--0000001", "step-",
                            "step-00000100-2", ".tmp-step-00000100", ".tmp-step-00000100-",
                            ".tmp-step-00000100-02", "step-99999999999999999999", "attempt", ""}) {
    EXPECT_FALSE(parse_name(other)) << other;
  }
  EXPECT_TRUE(is_shard_name("shard-00003.safetensors"));
  EXPECT_TRUE(is_shard_name("shard-00003.safetensors.partial"));
  EXPECT_FALSE(is_shard_name("shard-3.safetensors"));
  EXPECT_FALSE(is_shard_name("shard-00003.safetensors.bak"));
}

}  // namespace
}  // namespace penstock::checkpoint
