#include "trainer/run_profile.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/trainer/small_job.h"
#include "trainer/job/write_job.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using planner::Recompute;
using ::testing::HasSubstr;

struct RunProfileTest : ::testing::Test {
  fs::path root = fs::temp_directory_path() / fmt::format("penstock-run-profile-{}", getpid());
  fs::path run = root / "p";

  RunProfileTest() {
    fs::remove_all(root);
    fs::create_directories(run);
    write("job.toml", to_toml(testing::small_job(root.string(), {"parallel.pipeline=2", "parallel.data=1",
                                                                 "recompute.stages=[\"full\",\"none\"]"})));
    write("plan.json", R"({"schema": 1, "ranks": [{"stages": ["embedding to attention_0"]},
                           {"stages": ["mlp_0 to head"]}]})");
  }
  ~RunProfileTest() override { fs::remove_all(root); }

  void write(const std::string& name, const std::string& text) const { std::ofstream(run / name) << text; }

  // A step of four micro-batches: rank 0 takes `slow` times as long in F.
  static std::string line(int attempt, int step, double slow = 1, int replicas = 1) {
    std::string ranks;
    for (int replica = 0; replica < replicas; ++replica) {
      ranks += fmt::format(
          R"({}{{"rank": 0, "replica": {}, "forward_ms": {}, "backward_input_ms": 40, "backward_weight_ms": 20,
               "recompute_ms": 8, "optimizer_ms": 3, "fill_ms": 1}},
              {{"rank": 1, "replica": {}, "forward_ms": 60, "backward_input_ms": 200, "backward_weight_ms": 100,
               "optimizer_ms": 5}})",
          replica == 0 ? "" : ", ", replica, 12 * slow, replica);
    }
    ranks.erase(std::remove(ranks.begin(), ranks.end(), '\n'), ranks.end());
    return fmt::format(R"({{"schema": 1, "attempt": {}, "step": {}, "loss": 1.5, "ranks": [{}]}})", attempt,
                       step, ranks) +
           "\n";
  }

  std::string refusal() const {
    try {
      profile_from_run(run);
    } catch (const planner::ProfileError& error) {
      return error.what();
    }
    return "";
  }
};

// Seconds of a rank's units [begin, end), by an action.
double sum(const planner::ModelCosts& costs, int begin, int end, Recompute mode,
           double planner::ModeCosts::*action) {
  double seconds = 0;
  for (int unit = begin; unit < end; ++unit)
    seconds += costs.units[static_cast<size_t>(unit)].in(mode).*action;
  return seconds;
}

TEST_F(RunProfileTest, AddsUpToWhatRanksTook) {
  std::string text;
  for (int step = 1; step <= 9; ++step) text += line(1, step, 7);   // an earlier attempt
  for (int step = 8; step <= 10; ++step) text += line(2, step, 5);  // its first steps do not count
  for (int step = 11; step <= 17; ++step) text += line(2, step, 1, 2);
  write("metrics.jsonl", text + R"({"schema": 1, "att)");  // the run is writing
  const RunProfile made = profile_from_run(run);
  EXPECT_EQ(made.steps, 7);
  EXPECT_EQ(made.scaled, "by formula");
  EXPECT_EQ(made.profile.compute, "fp32");
  const planner::ModelCosts costs = planner::model_costs(made.profile, 2);
  ASSERT_EQ(costs.units.size(), 6U);
  using C = planner::ModeCosts;
  EXPECT_NEAR(4 * sum(costs, 0, 2, Recompute::full, &C::forward), 12e-3, 1e-9);
  EXPECT_NEAR(4 * sum(costs, 0, 2, Recompute::full, &C::recompute), 8e-3, 1e-9);
  EXPECT_NEAR(4 * sum(costs, 0, 2, Recompute::full, &C::backward_input), 40e-3, 1e-9);
  EXPECT_NEAR(4 * sum(costs, 0, 2, Recompute::full, &C::backward_weight), 20e-3, 1e-9);
  EXPECT_NEAR(4 * sum(costs, 2, 6, Recompute::none, &C::forward), 60e-3, 1e-9);
  EXPECT_NEAR(4 * sum(costs, 2, 6, Recompute::none, &C::backward_input), 200e-3, 1e-9);
  EXPECT_NEAR(costs.units[0].optimizer_step + costs.units[1].optimizer_step, 3e-3, 1e-9);
  // Units of a kind are told apart by rank: attention_0 is rank 0's, attention_1 rank 1's.
  EXPECT_NE(costs.units[1].in(Recompute::none).forward, costs.units[3].in(Recompute::none).forward);
  for (const planner::MeasuredUnit& unit : made.profile.units) {
    EXPECT_EQ(unit.optimizer_step.samples, 7);
    EXPECT_GT(unit.resident_bytes, 0);
    EXPECT_EQ(unit.sizes.size(), 1U);
  }
}

TEST_F(RunProfileTest, ScalesAnEarlierProfile) {
  std::string text;
  for (int step = 1; step <= 3; ++step) text += line(1, step);
  write("metrics.jsonl", text);
  write("profile.json", planner::write_profile(profile_from_run(run).profile));
  for (int step = 4; step <= 20; ++step) text += line(1, step, 2);
  write("metrics.jsonl", text);
  const planner::ModelCosts before =
      planner::model_costs(planner::read_profile_file((run / "profile.json").string()), 2);
  const RunProfile made = profile_from_run(run);
  EXPECT_EQ(made.scaled, "as in " + (run / "profile.json").string());
  const planner::ModelCosts after = planner::model_costs(made.profile, 2);
  for (size_t unit = 0; unit < 6; ++unit) {
    const double factor = unit < 2 ? 2 : 1;
    EXPECT_NEAR(after.units[unit].in(Recompute::none).forward,
                factor * before.units[unit].in(Recompute::none).forward, 1e-12);
    EXPECT_NEAR(after.units[unit].in(Recompute::none).backward_input,
                before.units[unit].in(Recompute::none).backward_input, 1e-12);
  }
}

TEST_F(RunProfileTest, NamesWhatIsWrong) {
  const std::string metrics = (run / "metrics.jsonl").string();
  EXPECT_THAT(refusal(), HasSubstr(metrics));
  write("metrics.jsonl", "{\"schema\": 1, \"attempt\": 1, \"step\": 1}\n");
  EXPECT_THAT(refusal(), HasSubstr("`ranks`"));
  write("metrics.jsonl", line(1, 1) + "nonsense\n" + line(1, 3));
  EXPECT_THAT(refusal(), HasSubstr(metrics + ":2"));
  write("metrics.jsonl",
        "{\"schema\": 1, \"attempt\": 1, \"step\": 1, \"ranks\": [{\"rank\": 0, \"forward_ms\": 1}]}\n");
  EXPECT_THAT(refusal(), HasSubstr(metrics + ":1: nothing of rank 1"));
  write("metrics.jsonl",
        "{\"schema\": 1, \"attempt\": 1, \"step\": 1, \"ranks\": [{\"rank\": 2, \"forward_ms\": 1}]}\n");
  EXPECT_THAT(refusal(), HasSubstr("a rank that plan.json does not have"));
  write("metrics.jsonl", line(1, 1));
  EXPECT_EQ(refusal(), "");
  write("plan.json", R"({"ranks": [{"stages": ["embedding to attention_9"]}]})");
  EXPECT_THAT(refusal(), HasSubstr("\"attention_9\" is no unit"));
  write("plan.json", R"({"ranks": [{"stages": ["embedding"]}, {"stages": ["head"]}]})");
  EXPECT_THAT(refusal(), HasSubstr("plan.json"));
  write("plan.json", "{");
  EXPECT_THAT(refusal(), HasSubstr("plan.json"));
  fs::remove(run / "job.toml");
  EXPECT_THAT(refusal(), HasSubstr("no run's folder"));
}

}  // namespace
}  // namespace penstock
