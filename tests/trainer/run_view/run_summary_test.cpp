#include "trainer/run_view/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/trainer/run_view/run_folder_copy.h"
#include "trainer/report/timestamp.h"

namespace penstock::run_view {
namespace {

using testing::HasSubstr;

bool nobody_locks(const std::filesystem::path&) {
  return false;
}

RunState state_of(const std::filesystem::path& folder, const std::string& host = "login") {
  RunState run(folder);
  run.refresh({host, *report::parse_timestamp("2026-12-01T00:00:00Z"), &nobody_locks});
  return run;
}

TEST(RunSummary, OfAFinishedRun) {
  const RunState run = state_of(small_run());
  const std::string text = summary_text(run);
  EXPECT_THAT(text, HasSubstr("state        finished, exit code 0\n"));
  EXPECT_THAT(text, HasSubstr("step         40 of 40\n"));
  EXPECT_THAT(text, HasSubstr("checkpoint   step 40\n"));
  EXPECT_THAT(text, HasSubstr("where        process 4242 on node-1, started 2026-"));
  EXPECT_FALSE(needs_resume(run));
  const nlohmann::ordered_json json = summary_json(run);
  EXPECT_EQ(json["life"], "ended");
  EXPECT_EQ(json["state"], "finished");
  EXPECT_EQ(json["needs_resume"], false);
  EXPECT_EQ(json["step"], 40);
  EXPECT_EQ(json["steps"], 40);
  EXPECT_EQ(json["exit_code"], 0);
  EXPECT_EQ(json["host"], "node-1");
  EXPECT_GT(json["tokens_per_second"], 0);
  EXPECT_FALSE(json.contains("seconds_left"));
  EXPECT_FALSE(json.contains("budget"));
}

TEST(RunSummary, ARunThatWasKilledIsStartedAgain) {
  const RunFolderCopy folder;
  std::string status = folder.text("status.json");
  status.replace(status.find("finished"), 8, "running");
  folder.write("status.json", status);
  EXPECT_TRUE(needs_resume(state_of(folder.path(), "node-1")));
  EXPECT_EQ(summary_json(state_of(folder.path(), "node-1"))["life"], "killed");
  // Seen from elsewhere nobody knows; two jobs in one folder are worse than none.
  EXPECT_FALSE(needs_resume(state_of(folder.path(), "login")));
  EXPECT_EQ(summary_json(state_of(folder.path(), "login"))["life"], "silent");
}

TEST(RunSummary, ABudgetIsShownWithItsAlarms) {
  const RunFolderCopy folder;
  std::string job = folder.text("job.toml");
  const std::string section = "[bubble_budget]\n";
  ASSERT_NE(job.find(section), std::string::npos);
  job.insert(job.find(section) + section.size(), "bubble_ratio = 0.05\ndrain_ms = 1000\n");
  folder.write("job.toml", job);
  folder.append("events.jsonl",
                "{\"event\": \"budget_alarm\", \"attempt\": 1, \"step\": 39, \"limit\": \"bubble_ratio\", "
                "\"since_step\": 21}\n");
  const RunState run = state_of(folder.path());
  EXPECT_THAT(summary_text(run), HasSubstr(" % of 5.0 %, ALARM since step 21\n"));
  const nlohmann::ordered_json json = summary_json(run);
  ASSERT_EQ(json["budget"].size(), 2U);
  EXPECT_EQ(json["budget"][0]["alarming"], true);
  EXPECT_EQ(json["budget"][0]["since_step"], 21);
  EXPECT_GT(json["budget"][0]["found"], 0.05);
  EXPECT_EQ(json["budget"][1]["alarming"], false);
  EXPECT_EQ(json["budget"][1]["limit_value"], 1000);
}

TEST(RunSummary, OfNothing) {
  const RunFolderCopy folder(false);
  const RunState run = state_of(folder.path());
  EXPECT_FALSE(needs_resume(run));
  EXPECT_THAT(summary_text(run), HasSubstr("not begun"));
  EXPECT_EQ(summary_json(run)["state"], "not_begun");
}

}  // namespace
}  // namespace penstock::run_view
