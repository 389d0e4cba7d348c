// The bubble budget on the command line.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/commands/gate.h"
#include "trainer/commands/replay.h"

namespace penstock::commands {
namespace {

using testing::HasSubstr;

class BudgetCommands : public testing::Test {
 protected:
  BudgetCommands() { std::filesystem::create_directories(folder_); }
  ~BudgetCommands() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }

  static std::string replayed(std::vector<std::string> arguments) {
    CLI::App app{"penstock"};
    ReplayArguments options;
    add_replay_options(app, options);
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    std::ostringstream out;
    EXPECT_EQ(run_replay_command(options, out), 0);
    return out.str();
  }

  int gate(const std::string& budget) const {
    int code = -1;
    CLI::App app{"penstock"};
    add_gate(app, code);
    std::vector<std::string> arguments{"gate", folder_.string(), "--budget", budget};
    testing::internal::CaptureStdout();
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    const std::string out = testing::internal::GetCapturedStdout();
    const char* said = code == 0 ? "keeps its budget" : code == 7 ? "breaks its budget" : "";
    EXPECT_THAT(out, HasSubstr(said));
    return code;
  }

 private:
  std::filesystem::path folder_ = std::filesystem::path(PENSTOCK_BINARY_DIR) / "budget_commands_test";
};

TEST_F(BudgetCommands, ReplayMovesUnitsFromARankThatBecomesSlow) {
  const std::string budget =
      write("budget.toml", "[bubble_budget]\nbubble_ratio = 0.05\nactions = [\"repartition\"]\n");
  const std::string tuning = std::string(PENSTOCK_SOURCE_DIR) + "/configs/tuning/";
  const std::vector<std::string> job{tuning + "job.toml",
                                     "--profile",
                                     tuning + "profile.json",
                                     "--set",
                                     "batch.micro=1",
                                     "--set",
                                     "parallel.partition=measured",
                                     "--budget",
                                     budget,
                                     "--every",
                                     "1000",
                                     "--steps",
                                     "180",
                                     "--disturb",
                                     "step 40.. rank 3 slower 30%"};
  const std::string out = replayed(job);
  EXPECT_THAT(out, HasSubstr("step 79: ALARM bubble_ratio"));
  EXPECT_THAT(out, HasSubstr("waited for: rank 3"));
  EXPECT_THAT(out, HasSubstr("budget: repartition is tried"));
  EXPECT_THAT(out, HasSubstr("budget: repartition is kept"));
  EXPECT_THAT(out, HasSubstr("at the end: 1f1b, units 9 "));
  EXPECT_EQ(replayed(job), out);
}

TEST_F(BudgetCommands, GateTellsRunsThatKeepTheirBudgetFromOthers) {
  std::string lines;
  for (int step = 1; step <= 100; ++step) {
    lines += fmt::format(
        R"({{"schema": 1, "attempt": 1, "step": {}, "step_ms": 200, "bubble_ratio": 0.1, "stage_imbalance": 0.1, )"
        R"("slowest_stage": 0, "drain_ms": 5, "ranks": [{{"rank": 0, "replica": 0, "forward_ms": 180}}]}})"
        "\n",
        step);
  }
  write("metrics.jsonl", lines);
  EXPECT_EQ(gate(write("loose.toml", "[bubble_budget]\nbubble_ratio = 0.2\n")), 0);
  EXPECT_EQ(gate(write("tight.toml", "[bubble_budget]\nbubble_ratio = 0.2\nstage_imbalance = 0.05\n")), 7);
  // No evaluation and no save: nothing that could be judged.
  EXPECT_EQ(gate(write("unseen.toml", "[bubble_budget]\namplification = 1.5\n")), 3);
}

}  // namespace
}  // namespace penstock::commands
