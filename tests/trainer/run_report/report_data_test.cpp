#include "trainer/run_report/report_data.h"

#include <cmath>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "tests/trainer/run_view/run_folder_copy.h"
#include "trainer/report/timestamp.h"
#include "trainer/run_report/page.h"
#include "trainer/run_report/run_history.h"
#include "trainer/run_report/trace_data.h"
#include "trainer/run_view/line_tail.h"

namespace penstock::run_report {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using run_view::RunFolderCopy;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

bool nobody_locks(const std::filesystem::path&) {
  return false;
}
const run_view::Surroundings login{"login", *report::parse_timestamp("2026-12-01T00:00:00Z"), &nobody_locks};

// A step of 100 ms on two ranks: 60 % F, the rest waiting or, on rank 1, fill; tokens 1000 a step.
std::string step_line(int64_t attempt, int64_t step, double loss = 4) {
  return fmt::format(
      R"({{"schema": 1, "attempt": {}, "step": {}, "tokens": {}, "loss": {}, "step_ms": 100, "bubble_ratio": 0.4, )"
      R"("idle_ratio": 0.4, "stage_imbalance": 0, "slowest_stage": 0, "drain_ms": 0, "ranks": [)"
      R"({{"rank": 0, "replica": 0, "accounted_ms": 100, "forward_ms": 60, "wait_backward_ms": 40, "root_rank": 1, )"
      R"("root_ms": 40}}, {{"rank": 1, "replica": 0, "accounted_ms": 100, "forward_ms": 60, "fill_ms": 40}}]}})"
      "\n",
      attempt, step, 1000 * step, loss);
}

std::string event_line(int64_t attempt, const std::string& time, const std::string& name, int64_t step) {
  return fmt::format(R"({{"schema": 1, "attempt": {}, "time": "2026-11-30T{}Z", "step": {}, "event": "{}"}})"
                     "\n",
                     attempt, time, step, name);
}

std::vector<run_view::RunEvent> events_of(const RunFolderCopy& folder) {
  std::vector<run_view::RunEvent> events;
  run_view::LineTail((folder.path() / "events.jsonl").string()).read([&](std::string_view line) {
    events.push_back(*run_view::parse_event(line));
  });
  return events;
}

double sum_of_parts(const Goodput& goodput) {
  return goodput.steps.all() + goodput.redone_steps + goodput.starting + goodput.not_running;
}

// Killed after step 6, saved at 4; begun again 10 s later.
void write_interrupted_run(const RunFolderCopy& folder) {
  for (int64_t step = 1; step <= 6; ++step) folder.append("metrics.jsonl", step_line(1, step, 5));
  for (int64_t step = 5; step <= 8; ++step) folder.append("metrics.jsonl", step_line(2, step, 3));
  folder.append("metrics.jsonl", "damage\n{\"schema\": 1, \"att");
  folder.write("events.jsonl",
               event_line(1, "00:00:00.000", "start", 0) + event_line(1, "00:00:00.700", "save", 4) +
                   event_line(2, "00:00:11.000", "start", 4) + event_line(2, "00:00:11.900", "end", 8));
}

TEST(RunHistory, StepsThatWereDoneAgainCountOnceAndAreLostTime) {
  const RunFolderCopy folder(false);
  write_interrupted_run(folder);
  const RunHistory history = read_history((folder.path() / "metrics.jsonl").string(), events_of(folder), 100);
  EXPECT_EQ(history.steps, 8);
  EXPECT_EQ(history.attempts, 2);
  EXPECT_EQ(history.damaged_lines, 1);
  ASSERT_EQ(history.buckets.size(), 8U);
  EXPECT_EQ(history.buckets[3].loss, 5);
  EXPECT_EQ(history.buckets[4].loss, 3);
  EXPECT_EQ(history.buckets[4].first_step, 5);
  const Goodput& goodput = history.goodput;
  EXPECT_NEAR(goodput.redone_steps, 0.2, 1e-9);
  EXPECT_NEAR(goodput.steps[run_view::Cause::forward], 8 * 0.06, 1e-9);
  EXPECT_NEAR(goodput.steps[run_view::Cause::wait], 8 * 0.02, 1e-9);  // of one rank of two
  EXPECT_NEAR(goodput.steps[run_view::Cause::fill], 8 * 0.02, 1e-9);
  EXPECT_NEAR(goodput.starting, 0.1 + 0.5, 1e-9);  // to 0.7 s; 0.9 s of which 0.4 in steps
  EXPECT_NEAR(goodput.not_running, 11.0 - 0.7, 1e-9);
  EXPECT_NEAR(goodput.wall, 11.9, 1e-9);
  EXPECT_NEAR(sum_of_parts(goodput), goodput.wall, 1e-9);
  ASSERT_EQ(history.ranks.size(), 2U);
  EXPECT_NEAR(history.ranks[0].parts[accounting::Part::wait_backward], 0.04, 1e-9);
  EXPECT_NEAR((history.ranks[0].behind.at({1, -1})), 0.04, 1e-9);
}

// Taken back from step 6 to 4 without leaving.
TEST(RunHistory, StepsAfterARollbackCountOnceToo) {
  const RunFolderCopy folder(false);
  for (int64_t step = 1; step <= 6; ++step) folder.append("metrics.jsonl", step_line(1, step, 5));
  for (int64_t step = 5; step <= 8; ++step) folder.append("metrics.jsonl", step_line(1, step, 3));
  const RunHistory history = read_history((folder.path() / "metrics.jsonl").string(), {}, 100);
  EXPECT_EQ(history.steps, 8);
  EXPECT_EQ(history.attempts, 1);
  ASSERT_EQ(history.buckets.size(), 8U);
  EXPECT_EQ(history.buckets[3].loss, 5);
  EXPECT_EQ(history.buckets[4].loss, 3);
  EXPECT_EQ(history.buckets[5].loss, 3);
  EXPECT_NEAR(history.goodput.redone_steps, 0.2, 1e-9);
}

TEST(RunHistory, AnAttemptThatWasKilledLivedAsLongAsItsSteps) {
  const RunFolderCopy folder(false);
  for (int64_t step = 1; step <= 20; ++step) folder.append("metrics.jsonl", step_line(1, step));
  folder.write("events.jsonl", event_line(1, "00:00:00.000", "start", 0));
  const RunHistory history = read_history((folder.path() / "metrics.jsonl").string(), events_of(folder), 100);
  EXPECT_NEAR(history.goodput.wall, 2.0, 1e-9);
  EXPECT_NEAR(sum_of_parts(history.goodput), 2.0, 1e-9);
}

TEST(RunHistory, BucketsAreBoundedAndHoldAllSteps) {
  const RunFolderCopy folder(false);
  std::string text;
  for (int64_t step = 101; step <= 1111; ++step) text += step_line(1, step, static_cast<double>(step));
  folder.write("metrics.jsonl", text);
  for (const int64_t most : {1, 7, 100, 1010, 1011, 5000}) {
    const RunHistory history = read_history((folder.path() / "metrics.jsonl").string(), {}, most);
    EXPECT_LE(static_cast<int64_t>(history.buckets.size()), most);
    int64_t steps = 0;
    double loss = 0;
    for (const Bucket& bucket : history.buckets) {
      EXPECT_EQ(bucket.first_step, 101 + steps);
      steps += bucket.steps;
      EXPECT_EQ(bucket.last_step, 100 + steps);
      loss += bucket.loss.value() * static_cast<double>(bucket.steps);
    }
    EXPECT_EQ(steps, 1011);
    EXPECT_NEAR(loss / 1011, 606, 1e-6);
    EXPECT_NEAR(history.goodput.wall, 101.1, 1e-6);
  }
}

TEST(RunHistory, OfNothing) {
  const RunHistory history = read_history("/nowhere/metrics.jsonl", {}, 100);
  EXPECT_EQ(history.steps, 0);
  EXPECT_TRUE(history.buckets.empty());
  EXPECT_EQ(history.goodput.wall, 0);
}

TEST(Traces, KeepEverySliceAndArrow) {
  json notes = json::array();
  const json traces = traces_of(run_view::small_run() / "trace", notes);
  ASSERT_EQ(traces.size(), 1U);
  EXPECT_TRUE(notes.empty());
  const json& trace = traces[0];
  EXPECT_EQ(trace["step"], 30);
  EXPECT_EQ(trace["schedule"], "1f1b");
  EXPECT_EQ(trace["tracks"].size(), 12U);  // three ranks of four streams
  // Of 4 micro-batches on 3 stages: 12 F, 12 B, 16 messages sent and received, 3 optimizer steps, 2 tied
  // sums.
  EXPECT_EQ(trace["slices"].size(), 12U + 12 + 16 + 16 + 3 + 2);
  EXPECT_EQ(trace["arrows"].size(), 16U);
  double first = 1e9;
  for (const json& slice : trace["slices"]) {
    first = std::min(first, slice[1].get<double>());
    EXPECT_LT(slice[0].get<size_t>(), trace["tracks"].size());
    EXPECT_LT(slice[3].get<size_t>(), trace["names"].size());
  }
  EXPECT_EQ(first, 0);
  for (const json& arrow : trace["arrows"]) EXPECT_GE(arrow[3].get<double>(), arrow[1].get<double>());
}

TEST(Traces, WhatIsNoneIsLeftOutAndSaid) {
  const RunFolderCopy folder(false);
  std::filesystem::create_directory(folder.path() / "trace");
  folder.write("trace/step-00000001.json", "{\"traceEvents\": [{\"ph\"");
  folder.write("trace/step-00000002.json",
               R"({"traceEvents": [1, null, {"ph": "X", "cat": "compute"}, {"ph": 3}]})");
  folder.write("trace/notes.txt", "x");
  json notes = json::array();
  const json traces = traces_of(folder.path() / "trace", notes);
  EXPECT_EQ(traces.size(), 1U);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0].get<std::string>(), HasSubstr("step-00000001.json"));
}

TEST(Traces, OfManySomeAreShown) {
  const RunFolderCopy folder(false);
  std::filesystem::create_directory(folder.path() / "trace");
  for (int step = 10; step < 40; ++step)
    folder.write(fmt::format("trace/step-{:08}.json", step),
                 fmt::format(R"({{"otherData": {{"step": {}}}, "traceEvents": []}})", step));
  json notes = json::array();
  const json traces = traces_of(folder.path() / "trace", notes);
  ASSERT_EQ(traces.size(), most_traces);
  EXPECT_EQ(traces.front()["step"], 10);
  EXPECT_EQ(traces.back()["step"], 39);
}

TEST(ReportData, FiguresAreThoseOfTheRun) {
  const ordered_json data = report_data({run_view::small_run()}, login);
  EXPECT_EQ(data["schema"], 1);
  EXPECT_EQ(data["causes"].size(), run_view::cause_count);
  const ordered_json& run = data["runs"][0];
  EXPECT_EQ(run["name"], "small_run");
  EXPECT_EQ(run["summary"]["state"], "finished");
  EXPECT_EQ(run["steps"]["count"], 40);
  EXPECT_EQ(run["steps"]["loss"].size(), 40U);
  EXPECT_EQ(run["validation"].size(), 2U);
  EXPECT_EQ(run["ranks"].size(), 3U);
  EXPECT_EQ(run["ranks"][0]["stages"].size(), 1U);
  EXPECT_GT(run["ranks"][0]["arenas_bytes"]["parameters"], 1000);
  EXPECT_GT(run["prediction"]["step_ms"], 0);
  EXPECT_EQ(run["advice"]["level"], "change_first");
  EXPECT_GE(run["advice"]["text"].size(), 2U);
  EXPECT_EQ(run["environment"]["host"], "node-1");
  double parts = 0;
  for (const auto& part : run["goodput"]["parts"]) parts += part["seconds"].get<double>();
  EXPECT_NEAR(parts, run["goodput"]["wall_seconds"].get<double>(), 1e-3 * parts);
  for (const char* column : {"first", "last", "step_ms", "tokens_per_second", "bubble_ratio", "causes_ms"})
    EXPECT_EQ(run["steps"][column].size(), 40U) << column;
}

TEST(ReportData, OfALongRunThePageIsBounded) {
  const RunFolderCopy folder(false);
  std::string text;
  for (int64_t step = 1; step <= 20000; ++step) text += step_line(1, step);
  folder.write("metrics.jsonl", text);
  std::string events;
  for (int64_t step = 1; step <= 5000; ++step)
    events += event_line(1, "00:00:00.000", step == 7 ? "spike" : "save", step);
  folder.write("events.jsonl", events);
  folder.write("status.json", R"({"state": "running", "step": 20000, "steps": 30000})");
  const ordered_json data = report_data({folder.path()}, login);
  EXPECT_LE(data["runs"][0]["steps"]["loss"].size(), static_cast<size_t>(most_points));
  EXPECT_EQ(data["runs"][0]["events"].size(), most_events);
  EXPECT_EQ(data["runs"][0]["events"][0]["event"], "spike");  // old, but it tells something
  EXPECT_LT(page(data).size(), 500000U);
}

TEST(ReportData, AFolderThatIsNoRunIsRefused) {
  const RunFolderCopy folder(false);
  EXPECT_THROW(report_data({folder.path()}, login), data::DataError);
}

TEST(ReportData, ARunThatHasJustBegunIsAPage) {
  const RunFolderCopy folder;
  folder.remove("metrics.jsonl");
  folder.remove("events.jsonl");
  folder.remove("trace");
  const ordered_json data = report_data({folder.path()}, login);
  EXPECT_EQ(data["runs"][0]["steps"]["count"], 0);
  EXPECT_THAT(page(data), HasSubstr("<!doctype html>"));
}

TEST(Page, NoTextOfARunCanEndItsScript) {
  const RunFolderCopy folder;
  folder.append("events.jsonl",
                R"({"attempt": 1, "step": 40, "event": "</script><script>alert(1)</script>", )"
                R"("reason": "<!-- <script> /*DATA*/ & \u2028 ]]>"})"
                "\n");
  const ordered_json data = report_data({folder.path()}, login);
  const std::string safe = json_for_script(data);
  EXPECT_THAT(safe, Not(HasSubstr("<")));
  EXPECT_EQ(ordered_json::parse(safe), data);
  const std::string text = page(data);
  EXPECT_THAT(text, Not(HasSubstr("alert(1)</script>")));
  // The template's own three: style is no script.
  size_t ends = 0;
  for (size_t at = text.find("</script>"); at != std::string::npos; at = text.find("</script>", at + 1))
    ++ends;
  EXPECT_EQ(ends, 2U);
}

TEST(Page, LoadsNothing) {
  const std::string text = page(report_data({run_view::small_run()}, login));
  for (const char* reference : {"src=", "href=", "@import", "url(http", "fetch(", "XMLHttpRequest",
                                "/*STYLE*/", "/*SCRIPT*/", "/*DATA*/"})
    EXPECT_THAT(text, Not(HasSubstr(reference)));
  EXPECT_THAT(text, HasSubstr("default-src 'none'"));
}

}  // namespace
}  // namespace penstock::run_report
