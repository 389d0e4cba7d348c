#include "trainer/background_save.h"

#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/file_writer.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "tests/data/temporary_folder.h"
#include "trainer/checkpoint/checkpoint_reader.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using Outcome = BackgroundSave::Outcome;

class BackgroundSaving : public testing::Test {
 protected:
  struct Rank {
    transport::World& world;
    BackgroundSave& save;
    std::vector<float> values;
    std::vector<checkpoint::Source> sources() {
      return {checkpoint::whole("t" + std::to_string(world.rank()), Tensor(values.data(), DType::fp32, {3}))};
    }
  };

  // What three ranks do, each with its own save.
  void on_ranks(const std::function<void(Rank&)>& work) const {
    const checkpoint::CheckpointWriter writer(checkpoints_, attempt_);
    transport::run_inproc(3, {}, [&](transport::World& world) {
      const transport::AbortOnUnwind abort(world);
      BackgroundSave save(world, writer, {2, 0});
      Rank rank{world, save, std::vector<float>(3, static_cast<float>(world.rank()))};
      work(rank);
    });
  }
  static checkpoint::Manifest manifest(int64_t step) {
    checkpoint::Manifest made;
    made.step = step;
    made.program = "test";
    return made;
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> found;
    for (const auto& one : checkpoint::list(checkpoints_, checkpoint::Depth::full)) {
      EXPECT_EQ(one.problem, "");
      found.push_back(one.step);
    }
    return found;
  }

  tests::TemporaryFolder folder_;
  const std::string checkpoints_ = folder_ / "checkpoints";
  const uint64_t attempt_ = checkpoint::claim_attempt(checkpoints_).attempt;
};

// The way of a save through a step loop: nobody meets anybody while a rank is busy.
TEST_F(BackgroundSaving, GoesOnBesideStepsUntilNobodyIsBusy) {
  std::promise<void> written;
  const std::shared_future<void> may_write = written.get_future().share();
  on_ranks([&](Rank& rank) {
    EXPECT_FALSE(rank.save.in_flight());
    ASSERT_EQ(rank.save.start(manifest(4), rank.sources(),
                              [&rank, may_write] {
                                if (rank.world.rank() == 1) may_write.wait();
                              }),
              "");
    EXPECT_TRUE(rank.save.in_flight());
    bool held = true;
    std::optional<Outcome> outcome;
    for (int step = 0; !outcome && step < 100000; ++step) {
      std::array<uint64_t, 1> busy{rank.save.busy() ? uint64_t{1} : 0};
      rank.world.all_or(busy);
      if (step == 20) {
        EXPECT_EQ(busy[0], 1u) << "rank 1 may not have written yet";
        if (rank.world.rank() == 0) written.set_value();
        held = false;
      }
      EXPECT_TRUE(busy[0] == 1 || !held);
      if (busy[0] == 0) outcome = rank.save.advance();
    }
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->step, 4);
    EXPECT_EQ(outcome->failure, "");
    EXPECT_FALSE(rank.save.in_flight());
  });
  EXPECT_EQ(steps(), std::vector<int64_t>{4});
}

TEST_F(BackgroundSaving, TheEndIsWaitedForAndOlderOnesGo) {
  on_ranks([&](Rank& rank) {
    for (const int64_t step : {1, 2, 3}) {
      ASSERT_EQ(rank.save.start(manifest(step), rank.sources(), [] {}), "");
      const Outcome outcome = rank.save.finish();
      EXPECT_EQ(outcome.step, step);
      EXPECT_EQ(outcome.failure, "");
      if (rank.world.rank() == 0) {
        EXPECT_EQ(outcome.deleted.size(), step == 3 ? 1u : 0u);
        EXPECT_GT(outcome.bytes, 3 * 3 * sizeof(float));
        EXPECT_GT(outcome.seconds, 0);
      }
    }
  });
  EXPECT_EQ(steps(), (std::vector<int64_t>{2, 3}));
}

TEST_F(BackgroundSaving, AShardThatCannotBeWrittenIsTheFailureOfAllAndLeavesNothing) {
  on_ranks([&](Rank& rank) {
    ASSERT_EQ(rank.save.start(manifest(1), rank.sources(),
                              [&] {
                                // Something else stands where rank 2's shard is to be.
                                if (rank.world.rank() != 2) return;
                                std::filesystem::create_directory(
                                    checkpoints_ + "/.tmp-step-00000001-1/shard-00002.safetensors");
                              }),
              "");
    const Outcome outcome = rank.save.finish();
    if (rank.world.rank() == 0) {
      EXPECT_THAT(outcome.failure, testing::AllOf(HasSubstr("rank 2"), HasSubstr("shard-00002.safetensors"),
                                                  HasSubstr("a folder")));
      EXPECT_FALSE(outcome.fenced);
      std::filesystem::remove(checkpoints_ + "/.tmp-step-00000001-1/shard-00002.safetensors");
    }
    // The next one is not disturbed by it.
    ASSERT_EQ(rank.save.start(manifest(2), rank.sources(), [] {}), "");
    EXPECT_EQ(rank.save.finish().failure, "");
  });
  EXPECT_EQ(steps(), std::vector<int64_t>{2});
}

TEST_F(BackgroundSaving, NaNAndInfinityAreNeverSaved) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    on_ranks([&](Rank& rank) {
      if (rank.world.rank() == 1) rank.values[2] = bad;
      ASSERT_EQ(rank.save.start(manifest(1), rank.sources(), [] {}), "");
      const Outcome outcome = rank.save.finish();
      if (rank.world.rank() != 0) return;
      EXPECT_TRUE(outcome.unfit);
      EXPECT_THAT(outcome.failure,
                  testing::AllOf(HasSubstr("1 of the values of rank 1"), HasSubstr("1 of t1")));
    });
    EXPECT_EQ(steps(), std::vector<int64_t>{});
  }
}

TEST_F(BackgroundSaving, NoFolderMeansNoSaveOnAnyRank) {
  data::write_file(checkpoints_ + "/.tmp-step-00000001-1", "in the way");
  on_ranks([&](Rank& rank) {
    EXPECT_THAT(rank.save.start(manifest(1), rank.sources(), [] {}), HasSubstr(".tmp-step-00000001-1"));
    EXPECT_FALSE(rank.save.in_flight());
  });
}

TEST_F(BackgroundSaving, AReplacedAttemptCommitsNothing) {
  on_ranks([&](Rank& rank) {
    ASSERT_EQ(rank.save.start(manifest(1), rank.sources(), [] {}), "");
    if (rank.world.rank() == 0) data::write_file(checkpoints_ + "/attempt", "7\n");
    rank.world.barrier();
    const Outcome outcome = rank.save.finish();
    if (rank.world.rank() != 0) return;
    EXPECT_TRUE(outcome.fenced);
    EXPECT_THAT(outcome.failure, HasSubstr("started again"));
  });
  EXPECT_EQ(steps(), std::vector<int64_t>{});
}

TEST_F(BackgroundSaving, ARunThatDiesWritesNoMore) {
  const checkpoint::CheckpointWriter writer(checkpoints_, attempt_);
  std::vector<float> values(3, 1.0F);
  std::promise<void> go;
  std::thread later;
  transport::run_inproc(1, {}, [&](transport::World& world) {
    BackgroundSave save(world, writer, {2, 0});
    const std::vector<checkpoint::Source> sources{
        checkpoint::whole("t", Tensor(values.data(), DType::fp32, {3}))};
    ASSERT_EQ(save.start(manifest(1), sources, [&] { go.get_future().wait(); }), "");
    later = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      go.set_value();  // by now it is being destroyed
    });
  });
  later.join();
  EXPECT_FALSE(std::filesystem::exists(checkpoints_ + "/.tmp-step-00000001-1/shard-00000.safetensors"));
  EXPECT_EQ(steps(), std::vector<int64_t>{});
}

}  // namespace
}  // namespace penstock
