// Saves of whole runs: beside the steps or not, one at a time, failing, and by an attempt that has been
// replaced.
#include "trainer/checkpointing.h"

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/file_writer.h"
#include "tests/trainer/tiny_training.h"
#include "trainer/checkpoint/checkpoint_error.h"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST_F(TrainingTest, SavesBesideTheStepsAreThoseOfARunThatStandsStill) {
  const std::vector<std::string> all{"checkpoint.every_steps=1", "checkpoint.keep_every_steps=1"};
  std::vector<std::string> still = all;
  still.emplace_back("checkpoint.background=false");
  ASSERT_EQ(train(job("still", still), {}), ExitCode::finished);
  for (const std::vector<std::string>& shape : {std::vector<std::string>{},
                                                {"parallel.pipeline=3"},
                                                {"parallel.pipeline=2", "parallel.schedule=zbv"}}) {
    const std::string name = "beside" + std::to_string(shape.size());
    std::vector<std::string> settings = all;
    settings.insert(settings.end(), shape.begin(), shape.end());
    ASSERT_EQ(train(job(name, settings), {}), ExitCode::finished);
    for (int step = 1; step <= 6; ++step) expect_equal(open("still", step), open(name, step));
    const auto saves = events(name, "save");
    ASSERT_EQ(saves.size(), 6u);
    for (const nlohmann::json& save : saves) {
      EXPECT_GT(save["seconds"].get<double>(), 0);
      EXPECT_GT(save["stall_seconds"].get<double>(), 0);
      EXPECT_GT(save["bytes"].get<int64_t>(), 100000);
    }
    fs::remove_all(run(name));
  }
}

// Steps that overlap: the pipeline is drained for a copy, and goes on beside it; both versions of the weights
// are in it.
TEST_F(TrainingTest, StepsThatOverlapAreSavedBesideTheStepsToo) {
  const std::vector<std::string> overlapping{"parallel.pipeline=2", "parallel.schedule=2bw",
                                             "batch.global=16", "parallel.data=2"};
  const auto trained = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> settings = overlapping;
    settings.insert(settings.end(), more.begin(), more.end());
    ASSERT_EQ(train(job(name, settings), {}), ExitCode::finished);
  };
  trained("still",
          {"checkpoint.every_steps=2", "checkpoint.keep_every_steps=1", "checkpoint.background=false"});
  for (const char* sharded : {"parallel.sharded_optimizer=false", "parallel.sharded_optimizer=true"}) {
    trained("beside", {"checkpoint.every_steps=2", "checkpoint.keep_every_steps=1", sharded});
    for (const int step : {2, 4, 6}) expect_equal(open("still", step), open("beside", step));
    EXPECT_NE(open("beside", 4).find("layers.1.mlp.up.weight.before"), nullptr);
    const auto saves = events("beside", "save");
    ASSERT_EQ(saves.size(), 3u);
    for (const nlohmann::json& save : saves) EXPECT_GT(save["stall_seconds"].get<double>(), 0);
    fs::remove_all(run("beside"));
  }
  // What an update would have changed meanwhile was copied before it.
  trained("every", {"checkpoint.every_steps=1", "checkpoint.keep_every_steps=1"});
  for (const int step : {2, 4, 6}) expect_equal(open("still", step), open("every", step));
}

TEST_F(TrainingTest, OlderOnesAreDeletedAfterTheNextIsThere) {
  ASSERT_EQ(train(job("run", {"checkpoint.every_steps=1", "checkpoint.keep_every_steps=4"}), {}),
            ExitCode::finished);
  std::vector<std::string> left;
  for (const auto& one : checkpoint::list((run("run") / "checkpoints").string(), checkpoint::Depth::full))
    left.push_back(std::to_string(one.step) + one.problem);
  EXPECT_THAT(left, testing::ElementsAre("4", "5", "6"));
}

TEST_F(TrainingTest, AFailedSaveIsAnAlarmAndTheNextOneSucceeds) {
  ASSERT_EQ(train(job("straight"), {}), ExitCode::finished);
  for (const char* background : {"checkpoint.background=true", "checkpoint.background=false"}) {
    const std::vector<std::string> settings{"parallel.pipeline=2", "checkpoint.every_steps=2", background};
    const std::string blocked = (run("run") / "checkpoints" / ".tmp-step-00000004-1").string();
    fs::create_directories(fs::path(blocked).parent_path());
    data::write_file(blocked, "in the way");
    ASSERT_EQ(train(job("run", settings), {}), ExitCode::finished);
    const auto failures = events("run", "save_failed");
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0]["step"], 4);
    EXPECT_THAT(failures[0]["reason"].get<std::string>(),
                testing::AllOf(HasSubstr("step 4"), HasSubstr(blocked)));
    EXPECT_EQ(events("run", "save").size(), 2u);
    expect_equal(open("straight", 6), open("run", 6));
    fs::remove_all(run("run"));

    fs::create_directories(fs::path(blocked).parent_path());
    data::write_file(blocked, "in the way");
    std::vector<std::string> stopping = settings;
    stopping.emplace_back("checkpoint.on_save_error=stop");
    ASSERT_EQ(train(job("run", stopping), {}), ExitCode::storage);
    const auto status = nlohmann::json::parse(std::ifstream(run("run") / "status.json"));
    EXPECT_EQ(status["last_checkpoint"], 2);
    EXPECT_EQ(status["step"], 5);
    fs::remove(blocked);
    ASSERT_EQ(train(job("run", stopping), {}), ExitCode::finished);
    expect_equal(open("straight", 6), open("run", 6));
    fs::remove_all(run("run"));
  }
}

// Requeued on another host while the first attempt lives on there: that one must end, whatever it was told.
TEST_F(TrainingTest, AReplacedAttemptEnds) {
  const Job long_run = job("run", {"run.steps=100000", "checkpoint.every_steps=2", "parallel.pipeline=2"});
  std::thread other([&] {
    while (metrics("run").size() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    data::write_file((run("run") / "checkpoints" / "attempt").string(), "2\n");
  });
  EXPECT_EQ(train(long_run, {}), ExitCode::storage);
  other.join();
  const auto failures = events("run", "save_failed");
  ASSERT_GE(failures.size(), 1u);  // another save may have begun before the end was agreed on
  EXPECT_LE(failures.size(), 2u);
  for (const nlohmann::json& failure : failures)
    EXPECT_THAT(failure["reason"].get<std::string>(), HasSubstr("started again elsewhere"));
}

TEST_F(TrainingTest, ASaveByHandIsMadeBesideTheStepsToo) {
  fs::create_directories(run("run") / "control");
  std::ofstream(run("run") / "control" / "save").put('\n');
  ASSERT_EQ(train(job("run", {"checkpoint.every_steps=5", "checkpoint.keep_every_steps=1"}), {}),
            ExitCode::finished);
  std::vector<int64_t> steps;
  for (const nlohmann::json& save : events("run", "save")) steps.push_back(save["step"]);
  EXPECT_THAT(steps, testing::ElementsAre(1, 5, 6));
  ASSERT_EQ(train(job("straight"), {}), ExitCode::finished);
  expect_equal(open("straight", 6), open("run", 6));
}

}  // namespace
}  // namespace penstock
