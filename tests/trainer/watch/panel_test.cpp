#include "trainer/watch/panel.h"

#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/run_view/run_folder_copy.h"
#include "trainer/report/timestamp.h"
#include "trainer/watch/layout.h"

namespace penstock::watch {
namespace {

using run_view::RunFolderCopy;
using run_view::RunState;
using testing::HasSubstr;
using testing::Not;

bool nobody_locks(const std::filesystem::path&) {
  return false;
}

const run_view::Surroundings login{"login", *report::parse_timestamp("2026-12-01T00:00:00Z"), &nobody_locks};

View view_of(int columns, int rows, Abilities abilities = {}) {
  View view;
  view.columns = columns;
  view.rows = rows;
  view.abilities = abilities;
  view.now = login.now;
  return view;
}

std::string frame(const RunState& run, const View& view) {
  std::string text;
  for (const Line& line : panel(run, view)) text += line.text(view.abilities) + "\n";
  return text;
}

/// Of a folder whose path is the same on every machine.
std::string small_frame(const View& view, std::optional<BubbleBudgetSection> budget = {}) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(run_view::small_run().parent_path());
  RunState run("small_run", std::move(budget));
  run.refresh(login);
  std::filesystem::current_path(before);
  return frame(run, view);
}

// UPDATE_FRAMES=1 in the environment writes what is drawn to the file instead: look at the difference.
void expect_frame(const std::string& file, const std::string& drawn) {
  const std::string path = std::string(PENSTOCK_FIXTURES) + "/" + file;
  if (std::getenv("UPDATE_FRAMES") != nullptr) std::ofstream(path) << drawn;
  std::ifstream in(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), drawn) << path;
}

TEST(Panel, IsDrawnAsItWas) {
  expect_frame("once_100.txt", small_frame(view_of(100, 0, {false, true})));
  expect_frame("ascii_40x12.txt", small_frame(view_of(40, 12)));
  expect_frame("colour_80x24.txt", small_frame(view_of(80, 24, {true, true})));
  View view = view_of(160, 40, {false, true});
  view.advice = {"30.5 % idle: first balance the stages by measured cost",
                 "schedule zbv: step 4.1 ms, 22 % less"};
  view.hint = "q quits";
  BubbleBudgetSection budget;
  budget.bubble_ratio = 0.15;
  budget.step_p95_ms = 50;
  budget.amplification = 1.5;
  budget.window_steps = 5;
  budget.warmup_steps = 5;
  expect_frame("budget_160x40.txt", small_frame(view, budget));
}

// A run of so many ranks that was written up to the middle of a line.
void write_run(const RunFolderCopy& folder, int ranks, int replicas) {
  folder.write(
      "status.json",
      R"({"state": "running", "time": "2026-11-30T23:59:55Z", "pid": 7, "attempt": 2, "step": 5, "steps": 1000000, )"
      R"("last_checkpoint": 4, "loss": 3.5})");
  folder.write("lock", "process 7 on node-1 since 2026-11-30 23:00:00 UTC\n");
  folder.write(
      "events.jsonl",
      "{\"event\": \"strange \\u001b[2J\", \"time\": \"2026-11-30T23:59:00Z\", \"step\": 1, \"reason\": "
      "\"\\u001b]0;title\\u0007 \\u4e16\\u754c \\u202e\"}\n{\"event\": \"save\", \"st");
  std::string text;
  for (int step = 1; step <= 5; ++step) {
    std::string rows;
    for (int replica = 0; replica < replicas; ++replica) {
      for (int rank = 0; rank < ranks; ++rank) {
        rows += fmt::format(
            R"({}{{"rank": {}, "replica": {}, "accounted_ms": 100, "forward_ms": {}, "wait_backward_ms": {}}})",
            rows.empty() ? "" : ", ", rank, replica, 20 + rank % 7, 80 - rank % 7);
      }
    }
    text += fmt::format(
        R"({{"attempt": 2, "step": {}, "tokens": {}, "loss": 3.5, "step_ms": 100, "bubble_ratio": 0.8, )"
        R"("stage_imbalance": 0.1, "slowest_stage": 0, "drain_ms": 5, "ranks": [{}]}})"
        "\n",
        step, step * 4096, rows);
  }
  folder.write("metrics.jsonl", text + text.substr(0, text.size() / 7));
}

TEST(Panel, FitsEveryTerminal) {
  for (const auto& [ranks, replicas] :
       {std::pair(1, 1), std::pair(2, 1), std::pair(8, 2), std::pair(64, 1)}) {
    const RunFolderCopy folder(false);
    write_run(folder, ranks, replicas);
    RunState run(folder.path());
    run.refresh(login);
    for (const int columns : {20, 40, 59, 60, 72, 76, 80, 100, 120, 121, 200}) {
      for (const int rows : {2, 3, 5, 8, 12, 20, 24, 25, 50, 200}) {
        for (const Abilities abilities : {Abilities{false, false}, Abilities{true, true}}) {
          const std::vector<Line> lines = panel(run, view_of(columns, rows, abilities));
          ASSERT_LE(lines.size(), static_cast<size_t>(rows));
          for (const Line& line : lines) {
            ASSERT_LE(line.columns(), columns) << line.text({});
            ASSERT_EQ(columns_of(line.text({})) <= columns, true);
          }
        }
      }
    }
    const std::string whole = frame(run, view_of(100, 0));
    EXPECT_THAT(whole, HasSubstr(replicas == 1 ? fmt::format("rank {:>{}}", ranks - 1, ranks > 9 ? 2 : 1)
                                               : fmt::format("rank {}.{}", replicas - 1, ranks - 1)));
    EXPECT_THAT(whole, HasSubstr("running"));
  }
}

TEST(Panel, RanksShareRowsWhereTheyAreMany) {
  const RunFolderCopy folder(false);
  write_run(folder, 64, 1);
  RunState run(folder.path());
  run.refresh(login);
  const std::string text = frame(run, view_of(80, 12));
  EXPECT_THAT(text, HasSubstr("rank  0-12*"));
  EXPECT_THAT(text, HasSubstr("rank 52-63 "));
}

TEST(Panel, WhatOthersWroteCannotMoveTheCursor) {
  const RunFolderCopy folder(false);
  write_run(folder, 2, 1);
  RunState run(folder.path());
  run.refresh(login);
  for (const bool utf8 : {false, true}) {
    const std::string text = frame(run, view_of(100, 0, {false, utf8}));
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("\x07")));
    EXPECT_THAT(text, HasSubstr("strange ?[2J: ?]0;title? ?? ?"));
  }
}

TEST(Panel, OfNothingYet) {
  RunState run("runs/tomorrow");
  run.refresh(login);
  const std::string text = frame(run, view_of(80, 24));
  EXPECT_EQ(text, "penstock runs/tomorrow  not begun\nwaiting for runs/tomorrow/status.json\n");
}

TEST(Panel, AlarmsAndTrialsAreSaid) {
  const RunFolderCopy folder(false);
  write_run(folder, 2, 1);
  std::ifstream job_file(run_view::small_run() / "job.toml");
  std::string job(std::istreambuf_iterator<char>(job_file), {});
  const std::string section = "[bubble_budget]\n";
  ASSERT_NE(job.find(section), std::string::npos);
  job.insert(job.find(section) + section.size(), "bubble_ratio = 0.15\n");
  job.replace(job.find("window_steps = 20"), 17, "window_steps = 4");
  folder.write("job.toml", job);
  folder.write(
      "events.jsonl",
      R"({"event": "budget_alarm", "attempt": 2, "step": 4, "limit": "bubble_ratio", "found": 0.8, )"
      R"("limit_value": 0.15, "since_step": 2})"
      "\n"
      R"({"event": "budget_decision", "attempt": 2, "step": 4, "candidates": [{"action": "schedule", )"
      R"("arrangement": "zbv", "taken": true, "predicted_gain": 0.306, "required_gain": 0.02}]})"
      "\n");
  RunState run(folder.path());
  run.refresh(login);
  const std::string text = frame(run, view_of(100, 30));
  EXPECT_THAT(text, HasSubstr("80.0 % of 15.0 %  ALARM since step 2"));
  EXPECT_THAT(
      text,
      HasSubstr("on trial         schedule since step 4, 30.6 % predicted, more than 2.0 % required: zbv"));
}

TEST(Layout, NeverTakesMoreThanThereIs) {
  for (int rows = 2; rows <= 80; ++rows) {
    for (const int ranks : {0, 1, 4, 64}) {
      for (const int more : {0, 1, 5, 40}) {
        const Wanted wanted{ranks, std::min(more, 6), more, more, ranks > 0};
        const Heights heights = share_out(wanted, rows);
        EXPECT_LE(heights.total(), rows);
        EXPECT_LE(heights.ranks, ranks);
        EXPECT_LE(heights.events, more);
        // A terminal of usual height shows every part.
        if (rows >= 24 && ranks > 0) {
          EXPECT_GE(heights.ranks, std::min(ranks, 4));
          EXPECT_EQ(heights.sparklines, 3);
          EXPECT_EQ(heights.budget, wanted.budget);
          EXPECT_GE(heights.events, std::min(more, 1));
          EXPECT_GE(heights.advice, std::min(more, 1));
        }
      }
    }
  }
}

TEST(Sparkline, ShowsShapesAndHoles) {
  const double hole = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8, {false, true}), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline({0, 7}, 8, {}), "_#");
  EXPECT_EQ(sparkline({0, hole, 7}, 8, {}), "_ #");
  EXPECT_EQ(sparkline({0, 0, hole, 7, 7, 7}, 3, {}), "_##");
  EXPECT_EQ(sparkline({5, 5, 5}, 8, {}), "===");
  EXPECT_EQ(sparkline({}, 8, {}), "");
}

}  // namespace
}  // namespace penstock::watch
