#include "trainer/budget/gate.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"

namespace penstock::budget {
namespace {

using accounting::Part;
using testing::HasSubstr;

BubbleBudgetSection section_of(double bubble) {
  BubbleBudgetSection section;
  section.bubble_ratio = bubble;
  section.warmup_steps = 5;
  section.window_steps = 10;
  section.patience = 2;
  return section;
}

std::string line(int64_t step, double bubble, const std::string& more = "") {
  return fmt::format(
      R"({{"schema": 1, "attempt": 1, "step": {}, "tokens": 9, "step_ms": 200, "bubble_ratio": {}, )"
      R"("stage_imbalance": 0.2, "slowest_stage": 1, "drain_ms": 12, "ranks": [)"
      R"({{"rank": 0, "replica": 0, "forward_ms": 80, "wait_backward_ms": 40, "root_rank": 1, "root_ms": 40}}, )"
      R"({{"rank": 1, "replica": 0, "forward_ms": 120, "fill_ms": 20{}}}]}})"
      "\n",
      step, bubble, more);
}

class Gate : public testing::Test {
 protected:
  Gate() {
    std::filesystem::create_directories(folder_);
    std::filesystem::remove(file());
  }
  ~Gate() override { std::filesystem::remove_all(folder_); }
  std::string file() const { return (folder_ / "metrics.jsonl").string(); }
  void add(int64_t first, int64_t last, double bubble, const std::string& more = "") const {
    std::ofstream out(file(), std::ios::app);
    for (int64_t step = first; step <= last; ++step) out << line(step, bubble, more);
  }
  GateResult judged(const BubbleBudgetSection& section) const {
    return gate(read_steps(file()), section, "here");
  }
  template <class Work>
  static std::string error_of(Work work) {
    try {
      work();
    } catch (const data::DataError& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::filesystem::path folder_ = std::filesystem::path(PENSTOCK_BINARY_DIR) / "gate_test";
};

TEST_F(Gate, ReadsWhatRunsWrite) {
  add(1, 1, 0.15, R"(, "evaluation_ms": 300)");
  const std::vector<StepObservation> steps = read_steps(file());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_NEAR(steps[0].seconds, 0.2, 1e-12);
  EXPECT_NEAR(steps[0].drain, 0.012, 1e-12);
  EXPECT_TRUE(steps[0].paused);
  EXPECT_EQ(steps[0].slowest_rank, 1);
  EXPECT_NEAR(steps[0].parts[Part::wait_backward], 0.02, 1e-12);
  ASSERT_EQ(steps[0].roots.size(), 1U);
  EXPECT_EQ(steps[0].roots[0].rank, 1);
  EXPECT_EQ(steps[0].roots[0].to, -1);
}

TEST_F(Gate, PassesWhatKeepsItsLimits) {
  add(1, 5, 0.9);  // warm-up
  add(6, 35, 0.1);
  const GateResult result = judged(section_of(0.12));
  EXPECT_TRUE(result.passed());
  EXPECT_EQ(result.windows, 3);
  EXPECT_EQ(result.first_step, 6);
  EXPECT_NEAR(result.rows.at(0).mean, 0.1, 1e-9);
}

TEST_F(Gate, FailsWhereWindowsInARowBreakOne) {
  add(1, 15, 0.1);
  add(16, 25, 0.2);
  add(26, 35, 0.1);
  add(36, 45, 0.2);
  EXPECT_TRUE(judged(section_of(0.12)).passed());  // never two in a row
  add(46, 55, 0.3);
  const GateResult result = judged(section_of(0.12));
  EXPECT_FALSE(result.passed());
  EXPECT_EQ(result.rows.at(0).broken, 3);
  EXPECT_EQ(result.rows.at(0).most_in_row, 2);
  EXPECT_EQ(result.rows.at(0).worst_step, 46);
  EXPECT_THAT(text_of(result), HasSubstr("BROKEN"));
  EXPECT_THAT(text_of(result), HasSubstr("waited for: rank 1 (100 % of all waiting)"));
  EXPECT_FALSE(json_of(result)["passed"].get<bool>());
}

TEST_F(Gate, OfAStepThatWasRunAgainTheLastTimeCounts) {
  add(1, 30, 0.5);
  add(1, 25, 0.1);  // another attempt, from the start
  EXPECT_TRUE(judged(section_of(0.12)).passed());
}

TEST_F(Gate, SaysWhatItCannotJudge) {
  EXPECT_THAT(error_of([&] { read_steps(file()); }), HasSubstr("cannot be read"));
  add(1, 8, 0.1);
  EXPECT_THAT(error_of([&] { judged(section_of(0.1)); }), HasSubstr("8 steps; 5 of warm-up and 10"));
  EXPECT_THAT(error_of([&] { judged(BubbleBudgetSection{}); }), HasSubstr("no limit"));
  std::ofstream(file(), std::ios::app) << "{\"step\": 9}\n";
  EXPECT_THAT(error_of([&] { read_steps(file()); }), HasSubstr(":9: no number \"step_ms\""));
}

TEST_F(Gate, ALineThatIsBeingWrittenIsLeftOut) {
  add(1, 3, 0.1);
  std::ofstream(file(), std::ios::app) << "{\"schema\": 1, \"att";
  EXPECT_EQ(read_steps(file()).size(), 3U);
}

// step_ms is without what the host does between two steps, and a save is no part of a step.
TEST_F(Gate, AStepIsWhatItsPartsAddUpTo) {
  add(1, 1, 0.1, R"(, "accounted_ms": 260, "checkpoint_ms": 30)");
  const std::vector<StepObservation> steps = read_steps(file());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_NEAR(steps[0].seconds, 0.260 - 0.030 / 2, 1e-12);
}

}  // namespace
}  // namespace penstock::budget
