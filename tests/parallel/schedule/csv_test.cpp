#include "parallel/schedule/csv.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/parallel/schedule/lowered.h"

namespace penstock::schedule {
namespace {

Schedule read(const std::string& text, const ScheduleOptions& options = {0, 0}) {
  return read_csv(text, "x.csv", options);
}

TEST(Csv, WritesPyTorchsNotation) {
  EXPECT_EQ(write_csv(generate("1f1b", {2, 3})), "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  EXPECT_EQ(write_csv(generate("zb-h1", {2, 2})), "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
  EXPECT_EQ(write_csv(generate("chimera", {2, 2})), "0F0,3F1,3B1,0B0\n2F1,1F0,1B0,2B1\n");
}

TEST(Csv, EveryScheduleSurvivesARoundTrip) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    for (const int P : {2, 4}) {
      Schedule schedule = generate(kind.name, {P, 2 * P});
      const Schedule again = read(write_csv(schedule));
      for (auto& actions : schedule.actions) {
        for (Action& action : actions) action.paired = false;  // the notation's cells are single actions
      }
      EXPECT_EQ(again.actions, schedule.actions) << kind.name;
      EXPECT_EQ(again.rank_of_stage, schedule.rank_of_stage) << kind.name;
      EXPECT_EQ(again.copies, schedule.copies) << kind.name;
      EXPECT_EQ(again.chunks, schedule.chunks) << kind.name;
      EXPECT_EQ(again.micro_batches, schedule.micro_batches) << kind.name;
      EXPECT_TRUE(validate(again).empty()) << kind.name;
    }
  }
}

TEST(Csv, IdleCellsBlanksAndLineEndingsAreNoActions) {
  const Schedule plain = read("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  for (const char* text : {
           "0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n",
           "0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1\r\n\r\n",
           "\xEF\xBB\xBF 0F0 , 0F1,\t0B0,0B1\n\n\"1F0\",1B0,1F1,1B1,,,",
       }) {
    const Schedule schedule = read(text);
    EXPECT_EQ(schedule.actions, plain.actions) << text;
    EXPECT_TRUE(validate(schedule).empty());
  }
}

TEST(Csv, OverlappedPairsAreRead) {
  const Schedule schedule = read("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
  ASSERT_EQ(schedule.actions[0].size(), 4u);
  EXPECT_TRUE(schedule.actions[0][1].paired);
  EXPECT_EQ(to_string(schedule.actions[0][2]), "0B0");
}

void expect_error(const std::string& text, const std::string& message,
                  const ScheduleOptions& options = {0, 0}) {
  try {
    read(text, options);
    ADD_FAILURE() << "should be refused: " << text;
  } catch (const ScheduleError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(message)) << text;
  }
}

TEST(Csv, ErrorsNameThePlace) {
  expect_error("0F0,0B0\n1F0,1X0\n", "x.csv:2:5: \"1X0\" is not an action");
  expect_error("0F0, 0B\n", "x.csv:1:6: \"0B\"");
  expect_error("0F0,F0\n", "x.csv:1:5: \"F0\"");
  expect_error("0F0,0F0x\n", "x.csv:1:5: \"0F0x\"");
  expect_error("0F0,-1B0\n", "x.csv:1:5: \"-1B0\"");
  expect_error("0F0,0SEND_F0\n", "transfers are placed by Penstock");
  expect_error("0F0,(0F1;0B0)\n", "expected (<action>;<action>)OVERLAP_F_B");
  expect_error("0F0,(0F1,0B0)OVERLAP_F_B\n", "x.csv:1:5");
  expect_error("0F99999999999999999999,0B0\n", "micro-batch is above");
  expect_error("99999999999999999999F0\n", "stage is above");
  expect_error("", "no action in it");
  expect_error(",,,\n,,\n", "no action in it");
  expect_error("0F0,1B0\n1F0,0B0\n",
               "x.csv:2: rank 1 runs 1F0, but stage 1 stands in the row of rank 0 as well");
  expect_error("0F0,0B0\n2F0,2B0\n", "stage 1 is in no row");
  expect_error("0F0,1F0,1B0,0B0\n2F0,2B0\n", "x.csv:1: rank 0 has 2 stage(s)");
  expect_error("0F0,0B0\n1F0,1B0\n", "the file has 2 ranks (rows), but 4 were asked for", {4, 0});
  expect_error("0F0,0B0\n1F0,1B0\n", "the file has 1 micro-batches, but 8 were asked for", {2, 8});
  expect_error("0F0,0B0\n1F0,1B0\n", "the file has 1 chunks a rank, but 2 were asked for", {2, 1, 2});
}

TEST(Csv, WhatCannotRunIsTheValidatorsBusiness) {
  const auto reason = [](const std::string& text) { return validate(read(text)).at(0).text(); };
  EXPECT_EQ(reason("0F0,0F1,0B0\n1F0,1F1,1B0,1B1\n"), "rank 0, 0B1: is missing (or I and W in its place)");
  EXPECT_EQ(reason("0B0,0F0\n"), "rank 0, #0 0B0: comes before its forward, #1");
  EXPECT_EQ(
      reason("0F0,0F1,0B1,0B0\n"),
      "rank 0, #3 0B0: its input gradient comes after that of micro-batch 1: sums go in micro-batch order");
  EXPECT_EQ(
      reason("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n"),
      "rank 1, #3 1B0: its input gradient comes after that of micro-batch 1: sums go in micro-batch order");
  // Two ranks that wait for each other.
  EXPECT_EQ(reason("0F0,3F0,3B0,0B0,\n2F0,1F0,1B0,2B0\n"),
            "rank 0, #1 3F0: waits for ever for 2F0, #0 of rank 1, which is stuck at its #0 2F0");
}

TEST(Csv, FilesAreRead) {
  const std::string path = testing::TempDir() + "penstock-schedule.csv";
  const Schedule schedule = generate("zbv", {3, 7});
  std::ofstream(path) << write_csv(schedule);
  EXPECT_EQ(generate("file:" + path, {0, 0}).actions, schedule.actions);
  EXPECT_EQ(generate("file:" + path, {3, 7, 2}).actions, schedule.actions);
  EXPECT_THROW(generate("file:" + path, {4, 7}), ScheduleError);
  EXPECT_EQ(std::remove(path.c_str()), 0);
  EXPECT_THROW(generate("file:" + path, {0, 0}), ScheduleError);
  EXPECT_THROW(generate("file:" + testing::TempDir(), {0, 0}), ScheduleError);
}

}  // namespace
}  // namespace penstock::schedule
