// The rank's log, status.json and environment.json.
#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/trainer/report/report_folder.h"
#include "trainer/report/environment.h"
#include "trainer/report/rank_log.h"
#include "trainer/report/status_file.h"
#include "trainer/report/timestamp.h"
#include "trainer/version/version.h"

namespace penstock::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

TEST(Timestamp, IsUtcWithMilliseconds) {
  const std::chrono::system_clock::time_point at{std::chrono::milliseconds(1'000'000'000'007)};
  EXPECT_EQ(timestamp(at), "2001-09-09T01:46:40.007Z");
  EXPECT_EQ(timestamp(std::chrono::system_clock::time_point{std::chrono::milliseconds(-1)}),
            "1969-12-31T23:59:59.999Z");
}

TEST(RankLog, EveryLineSaysWhenAndWho) {
  const ReportFolder folder;
  RankLog log(folder / "logs", 3);
  log.debug("dropped");
  log.info("one");
  log.warning("two\nlines\n");
  log.error("");
  const std::string text = folder.read("logs/rank-00003.log");
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  EXPECT_THAT(lines,
              ElementsAre(MatchesRegex("....-..-..T..:..:..\\....Z .rank 3. info: one"),
                          MatchesRegex(".*Z .rank 3. warning: two"),
                          MatchesRegex(".*Z .rank 3. warning: lines"), MatchesRegex(".*Z .rank 3. error: ")));
}

TEST(RankLog, LinesOfThreadsDoNotMix) {
  const ReportFolder folder;
  {
    RankLog log(folder / "logs", 0, LogLevel::debug);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log, t] {
        for (int i = 0; i < 200; ++i) log.debug(std::string(50, static_cast<char>('a' + t)));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const std::string text = folder.read("logs/rank-00000.log");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 800);
  for (const char c : {'a', 'b', 'c', 'd'})
    EXPECT_THAT(text, HasSubstr("debug: " + std::string(50, c) + "\n"));
}

TEST(StatusFile, IsCompleteAndSparing) {
  const ReportFolder folder;
  StatusFile::Clock::time_point now{};
  StatusFile file(folder / "status.json", {}, [&now] { return now; });
  const auto read = [&folder] { return nlohmann::json::parse(folder.read("status.json")); };
  Status status;
  status.state = Status::State::running;
  status.total_steps = 100;
  status.step = 1;
  status.loss = std::numeric_limits<double>::quiet_NaN();
  file.update(status);
  EXPECT_EQ(read()["state"], "running");
  EXPECT_EQ(read()["needs_resume"], true);
  EXPECT_TRUE(read()["loss"].is_null());
  EXPECT_FALSE(read().contains("exit_code"));

  status.step = 2;
  now += std::chrono::seconds(9);
  file.update(status);
  EXPECT_EQ(read()["step"], 1);
  now += std::chrono::seconds(1);
  file.update(status);
  EXPECT_EQ(read()["step"], 2);

  status.step = 3;
  status.last_checkpoint = 3;
  file.update(status);
  EXPECT_EQ(read()["last_checkpoint"], 3);

  status.state = Status::State::finished;
  status.exit_code = 0;
  file.update(status);
  EXPECT_EQ(read()["needs_resume"], false);
  EXPECT_EQ(read()["exit_code"], 0);
  EXPECT_THAT(folder.names(), ElementsAre("status.json"));
}

// What is wrong with the job, its data, its numbers or the disk is wrong again at the next start.
TEST(StatusFile, SaysWhatIsWorthStartingAgain) {
  const ReportFolder folder;
  Status status;
  for (const auto& [state, code, again] : {std::tuple(Status::State::stopped, 75, true),
                                           {Status::State::failed, 70, true},
                                           {Status::State::failed, 130, true},
                                           {Status::State::failed, 1, true},
                                           {Status::State::failed, 2, false},
                                           {Status::State::failed, 3, false},
                                           {Status::State::failed, 5, false},
                                           {Status::State::failed, 6, false},
                                           {Status::State::finished, 0, false}}) {
    status.state = state;
    status.exit_code = code;
    StatusFile(folder / "status.json", {}).update(status);
    EXPECT_EQ(nlohmann::json::parse(folder.read("status.json"))["needs_resume"], again) << code;
  }
}

TEST(StatusFile, AFailureIsToldOnceAndTriedAgain) {
  const ReportFolder folder;
  std::vector<std::string> messages;
  StatusFile::Clock::time_point now{};
  StatusFile file(
      folder / "absent/status.json", [&](const std::string& text) { messages.push_back(text); },
      [&now] { return now; });
  for (int i = 0; i < 3; ++i) {
    file.update({});
    now += std::chrono::seconds(11);
  }
  EXPECT_THAT(messages, ElementsAre(HasSubstr("absent/status.json")));
  std::filesystem::create_directory(folder / "absent");
  file.update({});
  EXPECT_EQ(nlohmann::json::parse(folder.read("absent/status.json"))["state"], "starting");
}

TEST(Environment, SaysWhatARunDependsOn) {
  ::setenv("OMP_NUM_THREADS", "3", 1);
  ::setenv("SLURM_JWT", "confidential", 1);
  ::setenv("NCCL_API_KEY", "confidential", 1);
  ::setenv("OTHER_VARIABLE", "not ours", 1);
  const std::string text = environment_text({"penstock", "train", "a b.toml", "\xff"});
  const auto found = nlohmann::json::parse(text);
  EXPECT_EQ(found["schema"], 1);
  EXPECT_EQ(found["command_line"][2], "a b.toml");
  EXPECT_FALSE(found["host"].get<std::string>().empty());
  EXPECT_EQ(found["build"]["version"], build_info().version);
  EXPECT_FALSE(found["build"]["compiler"].get<std::string>().empty());
  EXPECT_TRUE(found["build"]["libraries"].contains("OneDNN"));
  EXPECT_GE(found["processor"]["cores"].get<int>(), 1);
  EXPECT_GE(found["processor"]["cores_allowed"].get<int>(), 1);
  EXPECT_GT(found["memory"]["total_bytes"].get<int64_t>(), 1 << 20);
  EXPECT_FALSE(found["system"]["kernel"].get<std::string>().empty());
  EXPECT_EQ(found["variables"]["OMP_NUM_THREADS"], "3");
  EXPECT_THAT(text, Not(HasSubstr("confidential")));
  EXPECT_THAT(text, Not(HasSubstr("OTHER_VARIABLE")));
  for (const char* name : {"OMP_NUM_THREADS", "SLURM_JWT", "NCCL_API_KEY", "OTHER_VARIABLE"})
    ::unsetenv(name);
}

TEST(Version, NamesTheBuild) {
  const std::string text = version_text();
  EXPECT_THAT(text, testing::StartsWith("penstock " + build_info().version + " ("));
  EXPECT_THAT(text, HasSubstr("\nOneDNN: "));
  EXPECT_THAT(text, HasSubstr("\ncompiler: "));
  EXPECT_NE(build_info().git_id, "");
}

}  // namespace
}  // namespace penstock::report
