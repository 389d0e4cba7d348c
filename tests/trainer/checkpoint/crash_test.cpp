// A save that is killed, or whose system calls fail, at any point: afterwards the old checkpoint or the new
// one is there, whole.
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/trainer/checkpoint/small_run.h"
#include "tests/trainer/checkpoint/system_calls.h"
#include "tests/trainer/checkpoint/temporary_folder.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/step_folders.h"

namespace penstock::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Kind = Interference::Kind;

struct Case {
  const char* name;
  std::vector<int64_t> before;  // saved undisturbed
  int64_t step;                 // saved under fire, then pruned to two
  bool can_exchange;            // whether the file system knows RENAME_EXCHANGE
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{{"first", {}, 1, true},
                                     {"third, the first is pruned", {1, 2}, 3, true},
                                     {"same step again", {2}, 2, true},
                                     {"same step again without exchange", {2}, 2, false}};
  return all;
}

std::string checkpoints_of(const TemporaryFolder& folder) {
  return folder.path() + "/run/checkpoints";
}

// All of a run's contact with its folder: start, save, prune.
void attempt_save(const std::string& checkpoints, int64_t step) {
  const CheckpointWriter writer(checkpoints, claim_attempt(checkpoints).attempt);
  SmallRun(step).save(writer);
  writer.prune(step, 2, 0);
}

void prepare(const std::string& checkpoints, const Case& test) {
  if (test.before.empty()) return;
  const CheckpointWriter writer(checkpoints, claim_attempt(checkpoints).attempt);
  for (const int64_t step : test.before) SmallRun(step).save(writer);
}

// Does `what` to the k-th write-class call (from 1), counting them.
CallHook at_call(int k, Interference what, bool can_exchange, int& calls) {
  return [=, &calls](const std::string& call, const std::string&) -> Interference {
    if (call == "renameat2" && !can_exchange) return {Kind::fail, EINVAL};
    return ++calls == k ? what : Interference{};
  };
}

// What must hold after any accident: once the next attempt has started, the newest checkpoint is a whole one,
// of the new step or of the last one before it, bit by bit.
void expect_old_or_new(const std::string& checkpoints, const Case& test, const std::string& when) {
  const auto claim = claim_attempt(checkpoints);
  const Latest found = latest(checkpoints, Depth::full);
  EXPECT_TRUE(found.passed_over.empty()) << when;
  for (const Listed& listed : list(checkpoints, Depth::full)) EXPECT_EQ(listed.problem, "") << when;
  if (!found.checkpoint) {
    EXPECT_TRUE(test.before.empty()) << when << ": nothing left";
    return;
  }
  const int64_t step = found.checkpoint->manifest().step;
  EXPECT_TRUE(step == test.step || (!test.before.empty() && step == test.before.back()))
      << when << ": " << step;
  EXPECT_EQ(SmallRun(step).difference(*found.checkpoint), "") << when;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    EXPECT_NE(entry.path().filename().string().front(), '.') << when << ": left over " << entry.path();
  }
  // The run can go on from here.
  attempt_save(checkpoints, test.step);
  EXPECT_EQ(latest(checkpoints, Depth::full).checkpoint->manifest().step, test.step) << when;
}

int calls_of_a_save(const Case& test) {
  const TemporaryFolder folder;
  prepare(checkpoints_of(folder), test);
  int calls = 0;
  const CallWatch watch(at_call(0, {}, test.can_exchange, calls));
  attempt_save(checkpoints_of(folder), test.step);
  return calls;
}

TEST(Crash, KilledAtEveryWriteClassCallLeavesTheOldOrTheNew) {
  for (const Case& test : cases()) {
    const int calls = calls_of_a_save(test);
    ASSERT_GT(calls, 25) << test.name;
    for (int k = 1; k <= calls; ++k) {
      const std::string when = std::string(test.name) + ", killed at call " + std::to_string(k);
      const TemporaryFolder folder;
      prepare(checkpoints_of(folder), test);
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        int counted = 0;
        const CallWatch watch(at_call(k, {Kind::kill, 0}, test.can_exchange, counted));
        attempt_save(checkpoints_of(folder), test.step);
        _exit(0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << when;
      expect_old_or_new(checkpoints_of(folder), test, when);
    }
  }
}

TEST(Crash, EveryFailingCallIsReportedOrHarmless) {
  for (const Case& test : cases()) {
    const int calls = calls_of_a_save(test);
    for (const int error : {ENOSPC, EIO}) {
      int reported = 0;
      for (int k = 1; k <= calls; ++k) {
        const std::string when =
            std::string(test.name) + ", errno " + std::to_string(error) + " at call " + std::to_string(k);
        const TemporaryFolder folder;
        const std::string checkpoints = checkpoints_of(folder);
        prepare(checkpoints, test);
        int counted = 0;
        std::string words;
        {
          const CallWatch watch(at_call(k, {Kind::fail, error}, test.can_exchange, counted));
          try {
            attempt_save(checkpoints, test.step);
          } catch (const SaveError& problem) {
            words = problem.what();
          }
        }
        if (words.empty()) {
          EXPECT_EQ(latest(checkpoints, Depth::full).checkpoint->manifest().step, test.step) << when;
        } else {
          ++reported;
          EXPECT_THAT(words, HasSubstr(folder.path())) << when;
          EXPECT_THAT(words, HasSubstr(std::strerror(error))) << when;
        }
        expect_old_or_new(checkpoints, test, when);
      }
      EXPECT_GT(reported, 25) << test.name;
    }
  }
}

TEST(Crash, ShortWritesAreContinued) {
  const TemporaryFolder folder;
  int writes = 0;
  {
    const CallWatch watch([&](const std::string& call, const std::string&) -> Interference {
      if (call == "write" && ++writes <= 400) return {Kind::short_write, 0};
      return {};
    });
    attempt_save(checkpoints_of(folder), 1);
  }
  EXPECT_GT(writes, 400);
  EXPECT_EQ(SmallRun(1).difference(*latest(checkpoints_of(folder), Depth::full).checkpoint), "");
}

// A limit on the size of files stands for a disk that fills up under the writer, by the kernel's own hand.
TEST(Crash, ARealLimitIsAnErrorNotADeath) {
  const TemporaryFolder folder;
  const std::string checkpoints = checkpoints_of(folder);
  SmallRun(1).save(CheckpointWriter(checkpoints, claim_attempt(checkpoints).attempt));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{300, 300};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
    try {
      attempt_save(checkpoints, 2);
    } catch (const SaveError& error) {
      _exit(std::string(error.what()).find(std::strerror(EFBIG)) != std::string::npos ? 42 : 2);
    }
    _exit(3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_EQ(latest(checkpoints, Depth::full).checkpoint->manifest().step, 1);
}

TEST(Crash, AFailedSaveGivesItsSpaceBackAndTheNextOneSucceeds) {
  const TemporaryFolder folder;
  const std::string checkpoints = checkpoints_of(folder);
  const CheckpointWriter writer(checkpoints, claim_attempt(checkpoints).attempt);
  SmallRun(1).save(writer);
  {
    const CallWatch watch([](const std::string& call, const std::string& path) -> Interference {
      if (call == "write" && path.find("shard-00001") != std::string::npos) return {Kind::fail, ENOSPC};
      return {};
    });
    EXPECT_THROW(SmallRun(2).save(writer), SaveError);
  }
  EXPECT_TRUE(fs::exists(checkpoints + "/.tmp-step-00000002-1"));
  SmallRun(2).save(writer);  // over what the failed one left
  EXPECT_EQ(latest(checkpoints, Depth::full).checkpoint->manifest().step, 2);
  writer.begin(3);
  writer.abandon(3);
  EXPECT_FALSE(fs::exists(checkpoints + "/.tmp-step-00000003-1"));
}

// Power loss cannot be tested, only the order that survives it: a name is made durable after what it names.
TEST(Crash, FilesReachTheDiskBeforeTheNamesThatVouchForThem) {
  const TemporaryFolder folder;
  const std::string checkpoints = checkpoints_of(folder);
  const CheckpointWriter writer(checkpoints, claim_attempt(checkpoints).attempt);
  std::vector<std::string> order;
  {
    const CallWatch watch([&](const std::string& call, const std::string& path) -> Interference {
      if (call == "fsync" || call == "rename" || call == "mkdir") {
        order.push_back(call + " " + fs::path(path).lexically_relative(checkpoints).string());
      }
      return {};
    });
    SmallRun(7).save(writer);
  }
  const std::string in = ".tmp-step-00000007-1";
  EXPECT_THAT(order, ::testing::ElementsAre("mkdir " + in,                                               //
                                            "fsync " + in + "/shard-00000.safetensors.partial",          //
                                            "rename " + in + "/shard-00000.safetensors", "fsync " + in,  //
                                            "fsync " + in + "/shard-00001.safetensors.partial",          //
                                            "rename " + in + "/shard-00001.safetensors", "fsync " + in,  //
                                            "fsync " + in + "/manifest.json.partial",
                                            "rename " + in + "/manifest.json",  //
                                            "fsync " + in,                      //
                                            "rename step-00000007", "fsync ."));
}

// Half deleted it must never look whole, and always like the run's.
TEST(Crash, ADeletedCheckpointLosesItsManifestFirstAndItsMarkerLast) {
  const TemporaryFolder folder;
  const std::string checkpoints = checkpoints_of(folder);
  const CheckpointWriter writer(checkpoints, claim_attempt(checkpoints).attempt);
  for (const int64_t step : {1, 2, 3}) SmallRun(step).save(writer);
  // Many file systems list the newest name first: that must not be what puts them in order.
  for (const char* name : {"shard-00000.safetensors", "shard-00001.safetensors", "penstock-checkpoint"}) {
    fs::rename(checkpoints + "/step-00000001/" + name, folder.path() + "/aside");
    fs::rename(folder.path() + "/aside", checkpoints + "/step-00000001/" + name);
  }
  std::vector<std::string> order;
  {
    const CallWatch watch([&](const std::string& call, const std::string& path) -> Interference {
      if (call == "unlink") order.push_back(fs::path(path).filename());
      return {};
    });
    EXPECT_EQ(writer.prune(3, 2, 0).size(), 1u);
  }
  ASSERT_GE(order.size(), 4u);
  EXPECT_EQ(order.front(), "manifest.json");
  EXPECT_EQ(order.back(), "penstock-checkpoint");
}

}  // namespace
}  // namespace penstock::checkpoint
