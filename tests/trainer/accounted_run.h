// Runs whose lines of metrics are looked at.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "tests/trainer/tiny_training.h"

namespace penstock {

struct AccountedRun : TrainingTest {
  // The sum of a rank's parts; they are written in whole microseconds.
  static double sum_of_parts(const nlohmann::json& rank) {
    double milliseconds = 0;
    for (const auto& [key, value] : rank.items()) {
      if (key.ends_with("_ms") && key != "root_ms" && key != "accounted_ms")
        milliseconds += value.get<double>();
    }
    return milliseconds;
  }

  // Every line has every key, and every rank's parts add up to the same step; at most that share of it is
  // unexplained, as on devices whose clocks have to be aligned.
  static void expect_whole(const std::vector<nlohmann::json>& lines, size_t ranks, double unexplained = 0) {
    for (const nlohmann::json& line : lines) {
      for (const char* key : {"bubble_ratio", "bubble_ratio_rank_span", "idle_ratio", "stage_imbalance",
                              "slowest_stage", "fill_ms", "drain_ms", "micro_batch_latency_ms"})
        ASSERT_TRUE(line.contains(key)) << key << " in " << line;
      ASSERT_EQ(line["ranks"].size(), ranks);
      for (const nlohmann::json& rank : line["ranks"]) {
        EXPECT_FALSE(unexplained == 0 && rank.contains("unexplained_ms")) << rank;
        EXPECT_LE(rank.value("unexplained_ms", 0.0), unexplained * rank["accounted_ms"].get<double>())
            << rank;
        EXPECT_GT(rank["forward_ms"], 0);
        EXPECT_GT(rank["optimizer_ms"], 0);
        EXPECT_NEAR(sum_of_parts(rank), rank["accounted_ms"].get<double>(), 0.02);
        for (const char* key : {"root_rank", "root_link_to"})
          EXPECT_TRUE(!rank.contains(key) || rank[key].is_number_integer()) << rank;
        if (rank["replica"] != line["ranks"][0]["replica"]) continue;  // its window is its own
        EXPECT_EQ(rank["accounted_ms"], line["ranks"][0]["accounted_ms"]);
      }
      EXPECT_GE(line["bubble_ratio"], 0);
      EXPECT_LE(line["bubble_ratio"], line["idle_ratio"]);
      EXPECT_LT(line["idle_ratio"], 1);
    }
  }
};

}  // namespace penstock
