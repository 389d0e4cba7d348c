#include "trainer/commands/plan_schedule.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trainer/commands/run_command.h"

namespace penstock::commands {
namespace {

using testing::HasSubstr;

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

// Everything behind `penstock plan`.
Outcome plan(const std::string& arguments) {
  CLI::App app{"penstock"};
  PlanScheduleOptions options;
  add_schedule_options(*app.add_subcommand("plan"), options);
  std::ostringstream out;
  try {
    app.parse("plan " + arguments, false);
    return {run_plan_schedule(options, out), out.str(), ""};
  } catch (const CLI::ParseError& error) {
    return {2, "", error.what()};
  } catch (const std::runtime_error& error) {
    return {static_cast<int>(exit_code_of(error)), out.str(), error.what()};
  }
}

nlohmann::json json(const std::string& arguments) {
  const Outcome outcome = plan(arguments + " --json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return nlohmann::json::parse(outcome.out);
}

TEST(PlanSchedule, JsonHasTheDocumentedKeys) {
  const nlohmann::json answer = json("--schedule zb-h2 --pipeline 4 --micro-batches 8");
  EXPECT_EQ(answer.at("makespan"), 27);
  EXPECT_DOUBLE_EQ(answer.at("bubble_ratio"), 3.0 / 27);
  EXPECT_EQ(answer.at("bubble_ratio_rank_span"), 0);
  ASSERT_EQ(answer.at("ranks").size(), 4u);
  for (const auto& rank : answer.at("ranks")) {
    EXPECT_EQ(rank.at("idle"), 3);
    EXPECT_EQ(rank.at("peak_slots"), 7);
  }
}

TEST(PlanSchedule, CostsAreOfARankAndMicroBatch) {
  const nlohmann::json one = json("--schedule 1f1b --pipeline 4 --micro-batches 8 --costs 2,3,1,0");
  EXPECT_EQ(one.at("makespan"), (8 + 3) * 6);
  const nlohmann::json two =
      json("--schedule interleaved --chunks 2 --pipeline 4 --micro-batches 8 --costs 2,3,1");
  EXPECT_EQ(two.at("ranks")[0].at("idle"), 9);
  EXPECT_EQ(two.at("ranks")[0].at("peak_slots"), 5.5);
  const nlohmann::json slack =
      json("--schedule 1f1b --pipeline 8 --micro-batches 32 --costs 1,1,1,0.1 --warmup-slack 2");
  EXPECT_NEAR(slack.at("bubble_ratio"), 0.2013, 5e-5);
}

TEST(PlanSchedule, WavesAreTwoChunksEach) {
  EXPECT_EQ(json("--schedule hanayo --waves 2 --pipeline 4 --micro-batches 8").at("chunks"), 4);
  EXPECT_EQ(json("--schedule hanayo --pipeline 4 --micro-batches 8").at("chunks"), 2);
}

TEST(PlanSchedule, AnAsynchronousScheduleIsMeasuredInItsSteadyState) {
  const nlohmann::json answer = json("--schedule 2bw --pipeline 4 --micro-batches 8");
  EXPECT_EQ(answer.at("makespan"), 24);
  EXPECT_EQ(answer.at("bubble_ratio"), 0);
}

TEST(PlanSchedule, ComparesAllSchedules) {
  const nlohmann::json all = json("--schedules --pipeline 4 --micro-batches 6");
  ASSERT_EQ(all.at("schedules").size(), 14u);
  int refused = 0;
  for (const auto& row : all.at("schedules")) {
    if (!row.contains("refused")) continue;
    ++refused;
    EXPECT_THAT(row.at("refused").get<std::string>(), HasSubstr("at least 8 micro-batches"));
  }
  EXPECT_EQ(refused, 3);  // zb-h2, dualpipe, dualpipev
  const Outcome table = plan("--schedules --pipeline 4 --micro-batches 8");
  for (const char* name : {"gpipe", "zbv", "v-min", "chimera", "hanayo", "2bw"})
    EXPECT_THAT(table.out, HasSubstr(name));
}

TEST(PlanSchedule, DrawsWithinTheTerminalWithoutColour) {
  ASSERT_EQ(setenv("COLUMNS", "60", 1), 0);
  const Outcome outcome = plan("--schedule zbv --pipeline 4 --micro-batches 16");
  ASSERT_EQ(unsetenv("COLUMNS"), 0);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
  std::istringstream lines(outcome.out);
  std::string line;
  int ranks = 0;
  while (std::getline(lines, line)) {
    if (line.rfind("rank ", 0) != 0 || line.find("busy") != std::string::npos) continue;
    ++ranks;
    EXPECT_EQ(line.size(), 60u) << line;
  }
  EXPECT_EQ(ranks, 4);
}

TEST(PlanSchedule, WritesWhatItReads) {
  const std::string csv = testing::TempDir() + "penstock-plan.csv";
  const std::string svg = testing::TempDir() + "penstock-plan.svg";
  ASSERT_EQ(plan("--schedule zbv --pipeline 4 --micro-batches 8 --emit-csv " + csv + " --svg " + svg).code,
            0);
  const nlohmann::json named = json("--schedule zbv --pipeline 4 --micro-batches 8");
  const nlohmann::json read = json("--schedule file:" + csv);
  EXPECT_EQ(read.at("makespan"), named.at("makespan"));
  EXPECT_EQ(read.at("ranks"), named.at("ranks"));
  EXPECT_EQ(read.at("chunks"), 2);
  std::ifstream picture(svg);
  std::string start(5, ' ');
  picture.read(start.data(), 5);
  EXPECT_EQ(start, "<svg ");
  EXPECT_EQ(std::remove(csv.c_str()), 0);
  EXPECT_EQ(std::remove(svg.c_str()), 0);
}

TEST(PlanSchedule, ErrorsSayWhatToDo) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"--schedule 1f1 --pipeline 4 --micro-batches 8", "did you mean \"1f1b\"?"},
      {"--schedule zvb", "did you mean \"zbv\"?"},
      // Three of five letters are another word: nothing is suggested.
      {"--schedule nope", "unknown schedule \"nope\"; known: gpipe, "},
      {"--schedule x", "unknown schedule \"x\"; known: "},
      {"--schedule 1f1b --micro-batches 8", "--pipeline is missing"},
      {"--schedule 1f1b --pipeline 4", "--micro-batches is missing"},
      {"--schedules", "--pipeline is missing"},
      {"--schedule 1f1b --pipeline 0 --micro-batches 8", "\"0\": expected a whole number from 1 to 4096"},
      {"--schedule 1f1b --pipeline -3 --micro-batches 8", "\"-3\": expected a whole number from 1 to 4096"},
      {"--schedule 1f1b --pipeline 1e9 --micro-batches 8", "\"1e9\": expected a whole number"},
      {"--schedule 1f1b --pipeline 1000000000 --micro-batches 8", "from 1 to 4096"},
      {"--schedule 1f1b --pipeline 4 --micro-batches 1000000000000", "from 1 to 1048576"},
      {"--schedule gpipe --pipeline 4096 --micro-batches 1048576", "at most 25165824 are handled"},
      {"--schedule zb-h2 --pipeline 8 --micro-batches 10", "needs at least 16 micro-batches"},
      {"--schedule 1f1b --pipeline 4 --micro-batches 8 --chunks 2", "has exactly 1 chunk"},
      {"--schedule 1f1b --pipeline 4 --micro-batches 8 --waves 2", "--waves belongs to hanayo"},
      {"--schedule hanayo --waves 2 --chunks 2 --pipeline 4 --micro-batches 8", "--waves 2 means 4 chunks"},
      {"--schedule 1f1b --schedules --pipeline 4 --micro-batches 8", "exclude each other"},
      {"--schedules --pipeline 4 --micro-batches 8 --svg x.svg", "belong to one schedule"},
      {"--schedule 1f1b --pipeline 4 --micro-batches 8 --costs 1,1", "2 number(s)"},
      {"--schedule 1f1b --pipeline 4 --micro-batches 8 --costs 1,1,1,1,1", "5 number(s)"},
      {"--schedule 1f1b --pipeline 4 --micro-batches 8 --costs 1,x,1", "\"x\" (number 2) is not a number"},
      {"--schedule 1f1b --pipeline 4 --micro-batches 8 --costs 1,,1", "\"\" (number 2) is not a number"},
      {"--schedule 1f1b --pipeline 4 --micro-batches 8 --costs nan,1,1", "nan (number 1) is out of range"},
      {"--schedule 1f1b --pipeline 4 --micro-batches 8 --costs 1,inf,1", "inf (number 2) is out of range"},
      {"--schedule 1f1b --pipeline 4 --micro-batches 8 --costs=1,1,-1", "-1 (number 3) is out of range"},
      {"--schedule 1f1b --pipeline 4 --micro-batches 8 --costs 0,0,0", "no step to plan"},
      {"--schedule file:/no/such/file.csv", "cannot read the schedule \"/no/such/file.csv\": No such file"},
      {"--schedule file:x.csv --warmup-slack 1", "--warmup-slack belongs to 1f1b"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = plan(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
  }
}

// Before anything is planned: the second schedule would be refused.
TEST(PlanSchedule, OutputsThatCannotBeWrittenCostNothing) {
  const std::string picture = testing::TempDir() + "penstock-unwritten.svg";
  for (const char* rest : {"--pipeline 4 --micro-batches 8", "--pipeline 4 --micro-batches 8 --chunks 2"}) {
    for (const char* option : {"--svg", "--emit-csv"}) {
      const Outcome outcome = plan(fmt::format("--schedule 1f1b {} {} /no/such/folder/x", rest, option));
      EXPECT_EQ(outcome.code, 6);
      EXPECT_THAT(outcome.err, HasSubstr("/no/such/folder/x.partial: cannot create it: No such file"));
      EXPECT_EQ(outcome.out, "");
    }
  }
  // And a schedule that is refused leaves no empty file.
  EXPECT_EQ(plan("--schedule 1f1b --pipeline 4 --micro-batches 8 --chunks 2 --svg " + picture).code, 2);
  EXPECT_FALSE(std::filesystem::exists(picture));
}

TEST(PlanSchedule, AMalformedFileIsNamedWithLineAndColumn) {
  const std::string path = testing::TempDir() + "penstock-malformed.csv";
  std::ofstream(path) << "0F0,0B0\n1F0,1Q0\n";
  const Outcome outcome = plan("--schedule file:" + path);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(path + ":2:5: \"1Q0\" is not an action"));
  EXPECT_EQ(std::remove(path.c_str()), 0);
}

TEST(PlanSchedule, TheSmallestPipelineWorks) {
  const nlohmann::json answer = json("--schedule 1f1b --pipeline 1 --micro-batches 1");
  EXPECT_EQ(answer.at("makespan"), 3);
  EXPECT_EQ(answer.at("bubble_ratio"), 0);
  EXPECT_EQ(plan("--schedules --pipeline 1 --micro-batches 1").code, 0);
  EXPECT_EQ(plan("--schedule zbv --pipeline 3 --micro-batches 1 --costs 0,1,0").code, 0);
}

}  // namespace
}  // namespace penstock::commands
