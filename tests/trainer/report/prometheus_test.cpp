#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/report/report_folder.h"
#include "trainer/report/prometheus_file.h"

namespace penstock::report {
namespace {

using testing::HasSubstr;
using testing::Not;

StepMetrics metrics_of(int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.tokens = 1000 * step;
  metrics.loss = 2.5;
  metrics.bubble_ratio = 0.125;
  RankMetrics rank;
  rank.rank = 3;
  rank.replica = 1;
  rank.add("forward_ms", 7.25);
  metrics.ranks = {rank};
  return metrics;
}

struct PrometheusTest : testing::Test {
  ReportFolder folder;
  PrometheusFile::Clock::time_point time{};
  std::vector<std::string> messages;
  std::string path = folder / "metrics.prom";
  PrometheusFile file{path, "a \"b\"", [this](const std::string& text) { messages.push_back(text); },
                      [this] { return time; }};
};

TEST_F(PrometheusTest, TheLatestStepInTextFormat) {
  file.step(metrics_of(4));
  const std::string text = folder.read("metrics.prom");
  EXPECT_THAT(text, HasSubstr("# HELP penstock_loss of the latest step, as in metrics.jsonl\n"
                              "# TYPE penstock_loss gauge\n"
                              "penstock_loss{run=\"a \\\"b\\\"\"} 2.5\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE penstock_tokens_total counter\n"));
  EXPECT_THAT(text, HasSubstr("penstock_step{run=\"a \\\"b\\\"\"} 4\n"));
  EXPECT_THAT(text, HasSubstr(",rank=\"3\",replica=\"1\",part=\"forward_ms\"} 7.25\n"));
  EXPECT_THAT(text, Not(HasSubstr("penstock_mfu"))) << "what is not known is not there";
  EXPECT_THAT(text, Not(HasSubstr("penstock_budget"))) << "no budget, no limits";
}

TEST_F(PrometheusTest, StepsAreWrittenNowAndThenAndAlarmsAtOnce) {
  file.step(metrics_of(1));
  time += std::chrono::seconds(4);
  file.step(metrics_of(2));
  EXPECT_THAT(folder.read("metrics.prom"), HasSubstr("tokens_total{run=\"a \\\"b\\\"\"} 1000\n"));
  time += std::chrono::seconds(1);
  file.step(metrics_of(3));
  EXPECT_THAT(folder.read("metrics.prom"), HasSubstr("} 3000\n"));
  file.limits({{"bubble_ratio", 0.15, 0.3, true}, {"amplification", 2, std::nullopt, false}});
  const std::string text = folder.read("metrics.prom");
  EXPECT_THAT(text, HasSubstr("penstock_budget_limit{run=\"a \\\"b\\\"\",limit=\"bubble_ratio\"} 0.15\n"));
  EXPECT_THAT(text, HasSubstr("penstock_budget_found{run=\"a \\\"b\\\"\",limit=\"bubble_ratio\"} 0.3\n"));
  EXPECT_THAT(text, Not(HasSubstr("budget_found{run=\"a \\\"b\\\"\",limit=\"amplification\"}")));
  EXPECT_THAT(text, HasSubstr("budget_alarming{run=\"a \\\"b\\\"\",limit=\"bubble_ratio\"} 1\n"));
  file.limits({{"bubble_ratio", 0.15, 0.1, false}, {"amplification", 2, std::nullopt, false}});
  EXPECT_THAT(folder.read("metrics.prom"), HasSubstr("limit=\"bubble_ratio\"} 0\n"));
  EXPECT_THAT(folder.read("metrics.prom"),
              HasSubstr("budget_alarms_total{run=\"a \\\"b\\\"\",limit=\"bubble_ratio\"} 1\n"))
      << "an alarm that is over was one";
}

TEST_F(PrometheusTest, WhatCannotBeWrittenIsSaidOnce) {
  PrometheusFile lost((folder / "no/such/folder/metrics.prom"), "run",
                      [this](const std::string& text) { messages.push_back(text); }, [this] { return time; });
  for (int step = 1; step < 4; ++step) {
    lost.step(metrics_of(step));
    time += std::chrono::seconds(6);
  }
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_THAT(messages[0], HasSubstr("metrics.prom"));
}

}  // namespace
}  // namespace penstock::report
