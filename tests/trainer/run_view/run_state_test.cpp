#include "trainer/run_view/run_state.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/run_view/run_folder_copy.h"
#include "trainer/report/timestamp.h"

namespace penstock::run_view {
namespace {

bool nobody_locks(const std::filesystem::path&) {
  return false;
}
bool somebody_locks(const std::filesystem::path&) {
  return true;
}

const Surroundings elsewhere{"login", *report::parse_timestamp("2026-12-01T00:00:00Z"), &nobody_locks};

std::string step_line(int64_t attempt, int64_t step, const std::string& loss, double ms = 200) {
  return fmt::format(
      R"({{"schema": 1, "attempt": {}, "step": {}, "tokens": {}, "loss": {}, "step_ms": {}, )"
      R"("bubble_ratio": 0.25, "idle_ratio": 0.3, "stage_imbalance": 0.2, "slowest_stage": 1, "drain_ms": 12, "ranks": [)"
      R"({{"rank": 0, "replica": 0, "accounted_ms": {}, "forward_ms": 80, "wait_backward_ms": 40, "transfer_ms": 10}}, )"
      R"({{"rank": 1, "replica": 0, "accounted_ms": {}, "forward_ms": 120, "fill_ms": 20, "root_rank": 0, "root_ms": 20}}]}})"
      "\n",
      attempt, step, 1000 * step, loss, ms, ms, ms);
}

std::string status_text(const std::string& state, int64_t attempt, int64_t step) {
  return fmt::format(
      R"({{"schema": 1, "state": "{}", "time": "2026-11-30T23:59:30.500Z", "pid": 7, "attempt": {}, "step": {}, )"
      R"("steps": 100, "needs_resume": true, "last_checkpoint": 4}})",
      state, attempt, step);
}

TEST(RunState, OfAFinishedRun) {
  RunState run(small_run());
  run.refresh(elsewhere);
  EXPECT_EQ(run.step(), 40);
  EXPECT_EQ(run.total_steps(), 40);
  EXPECT_EQ(run.liveness().life, Life::ended);
  EXPECT_EQ(run.liveness().text(run.status()), "finished");
  EXPECT_EQ(run.liveness().holder->host, "node-1");
  EXPECT_EQ(run.last_checkpoint(), 40);
  EXPECT_EQ(run.steps().size(), 40U);
  EXPECT_EQ(run.events().back().name, "end");
  EXPECT_FALSE(run.seconds_left().has_value());
  EXPECT_FALSE(run.budget().has_value());
  EXPECT_EQ(run.damaged_lines(), 0);
  const std::vector<RankMean> ranks = run.rank_means();
  ASSERT_EQ(ranks.size(), 3U);
  for (const RankMean& rank : ranks) EXPECT_NEAR(rank.causes.all(), rank.step, 0.01 * rank.step);
}

TEST(RunState, ThatHasNotBegun) {
  const RunFolderCopy folder(false);
  RunState run(folder.path() / "nowhere");
  run.refresh(elsewhere);
  EXPECT_EQ(run.liveness().life, Life::not_begun);
  EXPECT_EQ(run.step(), 0);
  EXPECT_EQ(run.total_steps(), 0);
  EXPECT_EQ(run.step_seconds(), 0);
  EXPECT_FALSE(run.tokens_per_second().has_value());
  EXPECT_FALSE(run.bubble_ratio().has_value());
  EXPECT_TRUE(run.rank_means().empty());
}

TEST(RunState, FollowsARunThatIsWritten) {
  const RunFolderCopy folder(false);
  RunState run(folder.path());
  run.refresh(elsewhere);
  folder.write("lock", "process 7 on node-1 since 2026-11-30 23:00:00 UTC\n");
  folder.write("status.json", status_text("running", 1, 0));
  const std::string third = step_line(1, 3, "6.0");
  folder.append("metrics.jsonl", step_line(1, 1, "8.0") + step_line(1, 2, "7.0") + third.substr(0, 50));
  run.refresh(elsewhere);
  EXPECT_EQ(run.step(), 2);
  EXPECT_EQ(run.damaged_lines(), 0);
  folder.append("metrics.jsonl", third.substr(50));
  run.refresh(elsewhere);
  EXPECT_EQ(run.step(), 3);
  EXPECT_EQ(run.loss(), 6.0);
  EXPECT_EQ(run.liveness().life, Life::alive);  // heard of 29.5 s ago
  EXPECT_NEAR(run.step_seconds(), 0.2, 1e-12);
  EXPECT_NEAR(run.tokens_per_second().value(), 5000, 1e-9);
  EXPECT_NEAR(run.bubble_ratio().value(), 0.25, 1e-12);
  EXPECT_NEAR(run.idle_ratio().value(), 0.3, 1e-12);
  EXPECT_NEAR(run.seconds_left().value(), 97 * 0.2, 1e-9);
  const std::vector<RankMean> ranks = run.rank_means();
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_FALSE(ranks[0].slowest);
  EXPECT_TRUE(ranks[1].slowest);
  EXPECT_NEAR(ranks[0].causes[Cause::wait], 0.04, 1e-12);
  EXPECT_NEAR(ranks[0].causes[Cause::transfer], 0.01, 1e-12);
  EXPECT_NEAR(ranks[1].causes[Cause::fill], 0.02, 1e-12);
}

TEST(RunState, StepsThatAreDoneAgainCountOnce) {
  const RunFolderCopy folder(false);
  folder.write("status.json", status_text("running", 1, 6));
  for (int64_t step = 1; step <= 6; ++step) folder.append("metrics.jsonl", step_line(1, step, "5.0"));
  RunState run(folder.path());
  run.refresh(elsewhere);
  EXPECT_EQ(run.step(), 6);
  folder.write("status.json", status_text("starting", 2, 4));
  run.refresh(elsewhere);
  EXPECT_EQ(run.step(), 4);  // of the checkpoint, before a step was done again
  folder.append("metrics.jsonl", step_line(2, 5, "4.5"));
  run.refresh(elsewhere);
  EXPECT_EQ(run.step(), 5);
  ASSERT_EQ(run.past().size(), 5U);
  EXPECT_EQ(run.past().back().loss, 4.5);
}

TEST(RunState, DamageAndNotANumberAreSurvived) {
  const RunFolderCopy folder(false);
  folder.write("status.json", "{ half");
  folder.write("job.toml", "[run\nname = ");
  folder.write("events.jsonl", "not JSON\n{\"event\": 3}\n{\"event\": \"strange\", \"step\": \"x\"}\n");
  folder.write("metrics.jsonl", "garbage\n[]\n{\"step\": -1}\n" + step_line(1, 1, "null") +
                                    R"({"step": 2, "ranks": [1, {"rank": "a", "forward_ms": "b"}, null]})" +
                                    "\n");
  RunState run(folder.path());
  run.refresh(elsewhere);
  EXPECT_EQ(run.damaged_lines(), 3);
  EXPECT_EQ(run.step(), 2);
  ASSERT_EQ(run.steps().size(), 2U);
  EXPECT_TRUE(std::isnan(run.steps().front().loss.value()));
  EXPECT_FALSE(run.status().has_value());
  EXPECT_FALSE(run.job().has_value());
  ASSERT_EQ(run.events().size(), 1U);
  EXPECT_EQ(text_of(run.events()[0]), "strange");
}

TEST(RunState, KeepsABoundedNumberOfSteps) {
  const RunFolderCopy folder(false);
  std::string text;
  for (size_t step = 1; step <= RunState::kept_steps + 50; ++step)
    text += step_line(1, static_cast<int64_t>(step), "5.0");
  folder.write("metrics.jsonl", text);
  RunState run(folder.path());
  run.refresh(elsewhere);
  EXPECT_EQ(run.steps().size(), RunState::kept_steps);
  EXPECT_EQ(run.past().size(), RunState::kept_steps + 50);
}

TEST(RunState, WhoRunsIt) {
  const RunFolderCopy folder(false);
  folder.write("lock", "process 7 on node-1 since 2026-11-30 23:00:00 UTC\n");
  folder.write("status.json", status_text("running", 1, 0));
  const auto life = [&](const std::string& host, bool locked, const std::string& time) {
    RunState run(folder.path());
    run.refresh({host, *report::parse_timestamp(time), locked ? &somebody_locks : &nobody_locks});
    return run.liveness().text(run.status());
  };
  EXPECT_EQ(life("node-1", true, "2026-12-01T05:00:00Z"),
            "running");  // the lock tells, however old the status
  EXPECT_EQ(life("node-1", false, "2026-11-30T23:59:31Z"), "killed");
  EXPECT_EQ(life("login", false, "2026-12-01T00:00:20Z"), "running");
  EXPECT_EQ(life("login", false, "2026-12-01T00:01:35.500Z"), "silent for 2:05");
  folder.write("status.json", status_text("stopped", 1, 0));
  EXPECT_EQ(life("node-1", false, "2026-12-01T00:00:20Z"), "stopped");
  EXPECT_EQ(life("node-1", true, "2026-12-01T00:00:20Z"), "starting");  // again
  EXPECT_EQ(life("login", false, "2026-12-01T09:00:00Z"), "stopped");
}

TEST(RunRecord, WhatEventsSay) {
  const auto said = [](const std::string& line) { return text_of(parse_event(line).value()); };
  EXPECT_EQ(said(R"({"event": "save", "step": 5, "bytes": 26386864, "seconds": 0.0238})"),
            "saved, 26.4 MB in 0.02 s");
  EXPECT_EQ(said(R"({"event": "budget_alarm", "limit": "bubble_ratio", "found": 0.3, "limit_value": 0.15,)"
                 R"( "since_step": 121})"),
            "ALARM bubble_ratio is 30.0 %, limit 15.0 %, since step 121");
  EXPECT_EQ(said(R"({"event": "budget_alarm_over", "limit": "drain_ms", "limit_value": 40})"),
            "drain_ms is within its limit of 40 ms again");
  EXPECT_EQ(said(R"({"event": "budget_decision", "candidates": [{"action": "repartition", "taken": false},)"
                 R"({"action": "schedule", "arrangement": "zbv", "taken": true, "predicted_gain": 0.306}]})"),
            "schedule is tried: zbv; predicted gain 30.6 %");
  EXPECT_EQ(
      said(
          R"({"event": "budget_kept", "action": "schedule", "why": "its gain is sure", "measured_gain": 0.3})"),
      "schedule is kept: its gain is sure (30.0 % found)");
  EXPECT_EQ(said(R"({"event": "end", "exit_code": 75, "reason": "asked to"})"),
            "ended with exit code 75: asked to");
  EXPECT_FALSE(parse_event("{\"step\": 1}").has_value());
}

TEST(RunRecord, Holders) {
  const std::optional<Holder> holder =
      parse_holder("process 27081 on a since b since 2026-11-30 09:37:59 UTC\n");
  ASSERT_TRUE(holder.has_value());
  EXPECT_EQ(holder->pid, 27081);
  EXPECT_EQ(holder->host, "a since b");
  EXPECT_EQ(holder->since, "2026-11-30 09:37:59 UTC");
  for (const char* text : {"", "process", "process x on y since z", "process 1 since 2 on 3"})
    EXPECT_FALSE(parse_holder(text).has_value()) << text;
}

}  // namespace
}  // namespace penstock::run_view
