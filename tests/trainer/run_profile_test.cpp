#include "trainer/run_profile.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "data/data_error.h"
#include "tests/trainer/small_job.h"
#include "trainer/job/write_job.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using planner::Recompute;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
    } catch (const data::DataError& error) {
      return error.what();
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
  ASSERT_EQ(made.notes.size(), 1U);
  EXPECT_THAT(made.notes[0], HasSubstr((run / "metrics.jsonl").string() + ":20: skipped: the last line"));
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
  EXPECT_THAT(refusal(), AllOf(HasSubstr(metrics), HasSubstr("No such file"), HasSubstr("made steps")));
  write("metrics.jsonl", "{\"schema\": 1, \"attempt\": 1, \"step\": 1}\n");
  EXPECT_THAT(refusal(), HasSubstr("found 1 lines, none of which says what its ranks did (`ranks`)"));
  write("metrics.jsonl", "");
  EXPECT_THAT(refusal(), HasSubstr("found 0 lines"));
  write("metrics.jsonl", line(1, 1));
  EXPECT_EQ(refusal(), "");
  const std::string plan = (run / "plan.json").string();
  write("plan.json", R"({"ranks": [{"stages": ["embedding to attention_9"]}]})");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(plan), HasSubstr("\"attention_9\", which is no unit")));
  write("plan.json", R"({"ranks": [{"stages": ["embedding"]}, {"stages": ["head"]}]})");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(plan), HasSubstr("found stages of 2 units in all; expected the 6")));
  write("plan.json", R"({"ranks": [{"stage": []}]})");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(plan), HasSubstr("at /ranks/0; expected an object with a list")));
  write("plan.json", "{");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(plan), HasSubstr("no JSON (line 1, column 2: unexpected end"),
                               Not(HasSubstr("json.exception"))));
  fs::remove(run / "plan.json");
  fs::create_directories(run / "plan.json");
  EXPECT_THAT(refusal(), HasSubstr(plan + ": found a folder"));
  fs::remove(run / "job.toml");
  EXPECT_THAT(refusal(), HasSubstr("no run's folder"));
}

// A line in the middle that is damaged in whatever way: file, line, what was found and expected, what to do.
TEST_F(RunProfileTest, ADamagedLineIsNamed) {
  const std::string good = line(1, 3);
  const std::string ranks = R"({"schema": 1, "attempt": 1, "step": 2, "ranks": )";
  for (const auto& [damage, found] : std::vector<std::pair<std::string, std::string>>{
           {"nonsense", "no JSON (line 1, column"},
           {"", "no JSON (line 1, column 1: unexpected end"},
           {good.substr(0, 40), "no JSON"},
           {"\xff\xfe\x01", "no JSON"},
           {std::string(3, '\0'), "no JSON"},
           {"{\"attempt\": 1e999}", "no JSON"},
           {"[1]", "found [1]; expected a step's object"},
           {"{}", "a step without `attempt`"},
           {R"({"attempt": "one"})", "`attempt` = \"one\""},
           {R"({"attempt": 1.5})", "`attempt` = 1.5"},
           {ranks + "7}", "`ranks` = 7; expected a list"},
           {ranks + "[7]}", "found 7 in `ranks`"},
           {ranks + "[{}]}", "found {} in `ranks`"},
           {ranks + R"([{"rank": -1}]})", "\"rank\" from 0 to 1"},
           {ranks + R"([{"rank": 2}]})", "\"rank\" from 0 to 1"},
           {ranks + R"([{"rank": 0}]})", "nothing of rank 1"},
           {ranks + R"([{"rank": 0, "forward_ms": "fast"}]})", "forward_ms = \"fast\" of rank 0"},
           {ranks + R"([{"rank": 0, "forward_ms": -1}]})", "forward_ms = -1 of rank 0"},
           {ranks + R"([{"rank": 0, "optimizer_ms": 1e300}]})", "milliseconds from 0 to 1000000000"},
           {ranks + R"([{"rank": 0, "forward_ms": null}]})", "forward_ms = null of rank 0"}}) {
    write("metrics.jsonl", line(1, 1) + damage + "\n" + good);
    EXPECT_THAT(refusal(), AllOf(HasSubstr((run / "metrics.jsonl").string() + ":2: found "), HasSubstr(found),
                                 HasSubstr("; expected "), HasSubstr("take the line out"),
                                 Not(HasSubstr("json.exception"))))
        << damage;
  }
}

// Wherever a killed run stopped writing its last line, the steps before it count.
TEST_F(RunProfileTest, ATruncatedLastLineIsSkipped) {
  const std::string last = line(1, 5);
  std::string text;
  for (int step = 1; step <= 4; ++step) text += line(1, step);
  for (size_t bytes = 1; bytes + 1 < last.size(); bytes += 7) {
    write("metrics.jsonl", text + last.substr(0, bytes));
    const RunProfile made = profile_from_run(run);
    EXPECT_EQ(made.steps, 4);
    EXPECT_EQ(made.notes.size(), 1U) << bytes;
  }
  write("metrics.jsonl", text + last.substr(0, last.size() - 1));  // whole, but for its end
  EXPECT_EQ(profile_from_run(run).steps, 5);
  EXPECT_TRUE(profile_from_run(run).notes.empty());
}

}  // namespace
}  // namespace penstock
