#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/trainer/report/report_folder.h"
#include "trainer/report/event_writer.h"
#include "trainer/report/metrics_writer.h"

namespace penstock::report {
namespace {

using testing::MatchesRegex;

TEST(MetricsWriter, WritesAnObjectALine) {
  const ReportFolder folder;
  MetricsWriter writer(folder / "metrics.jsonl", 2, {});
  StepMetrics metrics;
  metrics.step = 7;
  metrics.tokens = 5'000'000'000;
  metrics.loss = 3.25;
  metrics.learning_rate = 1e-4;
  metrics.memory_peak_bytes = 123456789.0;
  metrics.grad_norm = std::numeric_limits<double>::quiet_NaN();
  writer.write(metrics);
  metrics.step = 8;
  metrics.grad_norm = std::numeric_limits<double>::infinity();
  writer.write(metrics);
  EXPECT_EQ(folder.read("metrics.jsonl"),
            "{\"schema\": 1, \"attempt\": 2, \"step\": 7, \"tokens\": 5000000000, \"loss\": 3.25, "
            "\"grad_norm\": null, "
            "\"learning_rate\": 0.0001, \"memory_peak_bytes\": 123456789}\n"
            "{\"schema\": 1, \"attempt\": 2, \"step\": 8, \"tokens\": 5000000000, \"loss\": 3.25, "
            "\"grad_norm\": null, "
            "\"learning_rate\": 0.0001, \"memory_peak_bytes\": 123456789}\n");
}

TEST(MetricsWriter, WritesWhatEachRankDid) {
  const ReportFolder folder;
  MetricsWriter writer(folder / "metrics.jsonl", 1, {});
  StepMetrics metrics;
  metrics.step = 1;
  metrics.bubble_ratio = 0.25;
  metrics.ranks.resize(2);
  metrics.ranks[0].add("forward_ms", 12.3456);
  metrics.ranks[0].add("drain_ms", 0);
  metrics.ranks[1].rank = 1;
  metrics.ranks[1].replica = 3;
  metrics.ranks[1].add("unexplained_ms", -0.002);
  writer.write(metrics);
  EXPECT_EQ(folder.read("metrics.jsonl"),
            "{\"schema\": 1, \"attempt\": 1, \"step\": 1, \"tokens\": 0, \"bubble_ratio\": 0.25, \"ranks\": "
            "[{\"rank\": 0, \"replica\": 0, \"forward_ms\": 12.346}, "
            "{\"rank\": 1, \"replica\": 3, \"unexplained_ms\": -0.002}]}\n");
  EXPECT_TRUE(nlohmann::json::accept(folder.read("metrics.jsonl")));
}

TEST(MetricsWriter, NumbersSurviveToTheLastBit) {
  const ReportFolder folder;
  MetricsWriter writer(folder / "metrics.jsonl", 1, {});
  StepMetrics metrics;
  metrics.step = 1;
  metrics.loss = 1.0 / 3;
  metrics.grad_norm = 1e-300;
  metrics.step_ms = 1e17 / 3;
  writer.write(metrics);
  const auto line = nlohmann::json::parse(folder.read("metrics.jsonl"));
  EXPECT_EQ(line["loss"], 1.0 / 3);
  EXPECT_EQ(line["grad_norm"], 1e-300);
  EXPECT_EQ(line["step_ms"], 1e17 / 3);
}

TEST(EventWriter, PutsDetailsBesideWhatEveryEventHas) {
  const ReportFolder folder;
  EventWriter writer(folder / "events.jsonl", 3, {});
  writer.write("evaluation", 20, {{"loss", 2.5}, {"text", "line\nbreak \xff"}});
  writer.write("stop", 21, nlohmann::json::object());
  const std::string text = folder.read("events.jsonl");
  const size_t end = text.find('\n');
  const auto event = nlohmann::json::parse(text.substr(0, end));
  EXPECT_EQ(event["schema"], 1);
  EXPECT_EQ(event["attempt"], 3);
  EXPECT_EQ(event["step"], 20);
  EXPECT_EQ(event["event"], "evaluation");
  EXPECT_EQ(event["loss"], 2.5);
  EXPECT_THAT(event["time"].get<std::string>(), MatchesRegex("....-..-..T..:..:..\\....Z"));
  EXPECT_EQ(nlohmann::json::parse(text.substr(end + 1))["event"], "stop");
  EXPECT_THROW(writer.write("x", 1, {{"step", 5}}), std::logic_error);
}

}  // namespace
}  // namespace penstock::report
