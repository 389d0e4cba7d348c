#include "trainer/alarm_command.h"

#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

struct AlarmCommandTest : testing::Test {
  fs::path folder = fs::temp_directory_path() / fmt::format("penstock-alarm-{}", getpid());
  std::mutex mutex;
  std::vector<std::string> messages;

  AlarmCommandTest() { fs::create_directories(folder); }
  ~AlarmCommandTest() override { fs::remove_all(folder); }
  AlarmCommand::Sink sink() {
    return [this](const std::string& what) {
      const std::lock_guard lock(mutex);
      messages.push_back(what);
    };
  }
  std::string read(const char* name) const {
    std::stringstream text;
    text << std::ifstream(folder / name).rdbuf();
    return text.str();
  }
};

TEST_F(AlarmCommandTest, ItKnowsWhatTheAlarmIsAbout) {
  {
    AlarmCommand command(fmt::format("echo \"$PENSTOCK_LIMIT at $PENSTOCK_STEP\" > {}/said", folder.string()),
                         std::chrono::minutes(1), sink());
    command.run({{"PENSTOCK_LIMIT", "bubble_ratio"}, {"PENSTOCK_STEP", "180"}});
  }
  EXPECT_EQ(read("said"), "bubble_ratio at 180\n");
  EXPECT_THAT(messages, ElementsAre());
}

TEST_F(AlarmCommandTest, AFailureIsSaid) {
  { AlarmCommand("exit 7", std::chrono::minutes(1), sink()).run({}); }
  EXPECT_THAT(messages, ElementsAre(AllOf(HasSubstr("exit 7"), HasSubstr("status 7"))));
}

TEST_F(AlarmCommandTest, WhatTakesTooLongIsKilledWithAllThatItStarted) {
  {
    // The shell waits for a child that holds the file open.
    AlarmCommand command(fmt::format("(sleep 1000; echo late > {}/late) & wait", folder.string()),
                         std::chrono::milliseconds(50), sink());
    command.run({});
  }
  EXPECT_THAT(messages, ElementsAre(HasSubstr("was killed")));
  EXPECT_FALSE(fs::exists(folder / "late"));
}

}  // namespace
}  // namespace penstock
