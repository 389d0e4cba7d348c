#include "trainer/stop_switch.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trainer/job/exit_code.h"

namespace penstock {
namespace {

using std::chrono::seconds;
namespace fs = std::filesystem;

struct StopSwitchTest : testing::Test {
  fs::path control = fs::temp_directory_path() / ("penstock-stop-switch-" + std::to_string(getpid()));
  StopSwitchTest() { fs::create_directories(control); }
  ~StopSwitchTest() override { fs::remove_all(control); }
  void touch(const char* name) const { std::ofstream(control / name).put('\n'); }
};

TEST_F(StopSwitchTest, NothingAsked) {
  StopSwitch stop(control, seconds(1000));
  const Request request = stop.poll(seconds(1));
  EXPECT_FALSE(request.stop || request.save || request.evaluate);
  EXPECT_TRUE(request.reason.empty());
  EXPECT_FALSE(StopSwitch::signalled());
}

TEST_F(StopSwitchTest, SignalsStopOrSave) {
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    StopSwitch stop(control, std::nullopt);
    ASSERT_EQ(raise(signal), 0);
    EXPECT_TRUE(StopSwitch::signalled());
    const Request request = stop.poll(seconds(0));
    EXPECT_TRUE(request.stop) << signal;
    EXPECT_EQ(request.reason, std::string("signal ") + sigabbrev_np(signal));
  }
  StopSwitch stop(control, std::nullopt);
  ASSERT_EQ(raise(SIGUSR2), 0);
  const Request first = stop.poll(seconds(0));
  EXPECT_TRUE(first.save);
  EXPECT_FALSE(first.stop);
  EXPECT_FALSE(stop.poll(seconds(0)).save) << "a save is asked for once";
}

TEST_F(StopSwitchTest, SaysAtOnceThatItStopsAndWhoWillNotWait) {
  const StopNotice notice{"stopping\n", "hurry\n"};
  for (const auto& [signal, expected] : {std::pair(SIGUSR1, "stopping\n"), {SIGTERM, "stopping\nhurry\n"}}) {
    StopSwitch stop(control, std::nullopt, notice);
    testing::internal::CaptureStderr();
    ASSERT_EQ(raise(signal), 0);
    ASSERT_EQ(raise(signal), 0);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), expected) << "once";
  }
}

TEST(StopNoticeTest, OnlyMpirunIsImpatient) {
  std::map<std::string, std::string> variables;
  const auto impatience = [&] {
    return stop_notice([&](const char* name) {
             const auto found = variables.find(name);
             return found == variables.end() ? nullptr : found->second.c_str();
           })
        .impatience;
  };
  EXPECT_EQ(impatience(), "");
  variables["OMPI_COMM_WORLD_SIZE"] = "2";
  EXPECT_NE(impatience().find(" 1 s after"), std::string::npos);
  EXPECT_LT(impatience().size(), 256U) << "a handler's room";
  variables["OMPI_MCA_odls_base_sigkill_timeout"] = "45";
  EXPECT_NE(impatience().find(" 45 s after"), std::string::npos);
}

TEST_F(StopSwitchTest, BrokenPipesAndFileSizeLimitsDoNotKill) {
  StopSwitch stop(control, std::nullopt);
  ASSERT_EQ(raise(SIGPIPE), 0);
  ASSERT_EQ(raise(SIGXFSZ), 0);
  EXPECT_FALSE(stop.poll(seconds(0)).stop);
}

TEST_F(StopSwitchTest, ControlFilesAreReadOnce) {
  StopSwitch stop(control, std::nullopt);
  touch("save");
  touch("eval");
  const Request both = stop.poll(seconds(0));
  EXPECT_TRUE(both.save && both.evaluate);
  EXPECT_FALSE(both.stop);
  EXPECT_FALSE(fs::exists(control / "save"));
  EXPECT_FALSE(stop.poll(seconds(0)).save);
  touch("stop");
  const Request request = stop.poll(seconds(0));
  EXPECT_TRUE(request.stop);
  EXPECT_EQ(request.reason, "control/stop");
}

TEST_F(StopSwitchTest, LeavesTimeToSaveBeforeTheLimit) {
  StopSwitch stop(control, seconds(100));
  EXPECT_FALSE(stop.poll(seconds(90)).stop);
  const Request request = stop.poll(seconds(101));
  EXPECT_TRUE(request.stop);
  EXPECT_NE(request.reason.find("max_wall_time"), std::string::npos);
}

TEST_F(StopSwitchTest, LongPhasesHearOfFilesAndTheTimeLimitToo) {
  {
    StopSwitch stop(control, seconds(1000));
    EXPECT_FALSE(StopSwitch::signalled());
    touch("stop");
    EXPECT_TRUE(StopSwitch::signalled());
    EXPECT_TRUE(fs::exists(control / "stop")) << "the request is kept";
    EXPECT_TRUE(stop.poll(seconds(0)).stop);
    EXPECT_FALSE(StopSwitch::signalled());
  }
  StopSwitch over(control, seconds(0));
  EXPECT_TRUE(StopSwitch::signalled());
}

TEST_F(StopSwitchTest, WhatIsOlderThanTheProgramIsNobodysRequest) {
  StopSwitch stop(control, std::nullopt);
  for (const char* name : {"stop", "act"}) {
    touch(name);
    fs::last_write_time(control / name, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  touch("save");
  EXPECT_FALSE(StopSwitch::signalled());
  EXPECT_EQ(stop.discard_old().size(), 2U);
  EXPECT_TRUE(stop.discard_old().empty());
  const Request request = stop.poll(seconds(0));
  EXPECT_FALSE(request.stop);
  EXPECT_TRUE(request.save) << "asked since";
  EXPECT_EQ(request.act, "");
}

// What stands in control/act is somebody's text: it is said again, and must neither flood nor stop the run.
TEST_F(StopSwitchTest, ARequestIsOneShortPrintableLine) {
  StopSwitch stop(control, std::nullopt);
  const fs::path act = control / "act";
  std::ofstream(act) << "schedule zbv\nrevert\n";
  EXPECT_EQ(stop.poll(seconds(0)).act, "schedule zbv");
  EXPECT_FALSE(fs::exists(act));
  std::ofstream(act) << "revert";
  EXPECT_EQ(stop.poll(seconds(0)).act, "");
  EXPECT_TRUE(fs::exists(act)) << "whoever writes it may not be done";
  std::ofstream(act) << "\x1b[2Jrevert\r\n";
  EXPECT_EQ(stop.poll(seconds(0)).act, "?[2Jrevert?");
  std::ofstream(act) << "revert " << std::string(1 << 20, ' ');
  const std::string huge = stop.poll(seconds(0)).act;
  EXPECT_EQ(huge.size(), 63U);
  EXPECT_EQ(huge.substr(60), "...");
  EXPECT_FALSE(fs::exists(act));
  ASSERT_EQ(mkfifo(act.c_str(), 0600), 0);
  EXPECT_EQ(stop.poll(seconds(0)).act, "") << "nobody writes this pipe";
  fs::remove(act);
}

// With which status a process ends that gets both, a second and a bit apart; 99: it was not ended.
int status_after(int first, int second, const StopNotice& notice) {
  const pid_t child = fork();
  if (child == 0) {
    StopSwitch stop("", std::nullopt, notice);
    raise(first);
    usleep(1'050'000);
    raise(second);
    _exit(99);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StopSwitchHurry, ASecondTermLeavesAtOnceWhereNoSchedulerSendsTwo) {
  EXPECT_EQ(status_after(SIGTERM, SIGTERM, {}), static_cast<int>(ExitCode::terminated));
  EXPECT_EQ(status_after(SIGTERM, SIGINT, {}), static_cast<int>(ExitCode::interrupted));
  EXPECT_EQ(status_after(SIGUSR1, SIGTERM, {}), 99) << "a scheduler's warning, then its end";
  EXPECT_EQ(status_after(SIGTERM, SIGTERM, {.first = "", .impatience = "", .two_terms = true}), 99);
}

TEST_F(StopSwitchTest, TheSecondInterruptLeavesAtOnce) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    StopSwitch stop(control, std::nullopt);
    raise(SIGINT);
    raise(SIGINT);
    _exit(99);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ExitCode::interrupted));
}

}  // namespace
}  // namespace penstock
