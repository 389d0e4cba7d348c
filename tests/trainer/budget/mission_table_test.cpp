// The table of docs/bubble-budget.md: layers counted out, cut by measured costs, and held to a budget.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/trainer/budget/replayed_run.h"

namespace penstock::budget {
namespace {

constexpr int64_t steps = 1000;
constexpr int64_t changed_at = steps / 2 + 1;  ///< a rank is slow from here, and figures count from here

struct Row {
  double p50 = 0;  ///< seconds of a step
  double p95 = 0;
  double idle = 0;  ///< mean bubble ratio
  double imbalance = 0;
  int64_t peak = 0;  ///< bytes of the fullest rank, of the arrangement that takes most
  std::string kept;  ///< what the budget changed
};

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::max<size_t>(rank, 1) - 1];
}

// How many actions were kept, and how many tried and rolled back.
std::string outcome(const std::vector<Applied>& applied) {
  std::string made;
  for (const Applied& each : applied) {
    const char* what = each.kept ? "kept" : each.ended > 0 ? "rolled back" : "on trial";
    made += fmt::format("{}{}: {} {}", made.empty() ? "" : "; ", each.ended, each.after.schedule, what);
  }
  return made.empty() ? "–" : made;
}

Row replay(const MissionCase& mission, const Arrangement& first, const std::vector<BudgetAction>& actions) {
  ControllerOptions options = mission.options(first, actions);
  options.budget.bubble_ratio = 0.05;
  ReplayedRun replayed(mission.truth, options);
  std::vector<double> seconds;
  Row row;
  size_t applied = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    if (row.peak == 0 || replayed.applied().size() != applied) {
      row.peak = std::max(row.peak, mission.prediction(replayed.running()).peak_memory);
      applied = replayed.applied().size();
    }
    replayed.run_to(step);
    if (step < changed_at) continue;
    seconds.push_back(replayed.last().seconds);
    row.idle += replayed.last().bubble_ratio / static_cast<double>(steps - changed_at + 1);
    row.imbalance += replayed.last().stage_imbalance / static_cast<double>(steps - changed_at + 1);
  }
  row.p50 = percentile(seconds, 0.5);
  row.p95 = percentile(seconds, 0.95);
  row.kept = outcome(replayed.applied());
  return row;
}

struct Costs {
  const char* name;
  double action_sigma;
  double rank_sigma;
  const char* disturbance;  ///< or nullptr
};

const std::vector<Costs> all_costs{
    {"steady", 0, 0, nullptr},
    {"noise", 0.1, 0.05, nullptr},
    {"rank 3 slower by 15 % from step 501", 0, 0, "step 501.. rank 3 slower 15%"},
    {"noise, rank 3 slower by 15 % from step 501", 0.1, 0.05, "step 501.. rank 3 slower 15%"},
};

std::string page() {
  std::ifstream file(std::string(PENSTOCK_SOURCE_DIR) + "/docs/bubble-budget.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(WholeMissionTable, IsThePages) {
  const std::vector<BudgetAction> cuts{BudgetAction::repartition};
  const std::vector<BudgetAction> all{BudgetAction::repartition, BudgetAction::recompute,
                                      BudgetAction::schedule, BudgetAction::chunks};
  const std::string written = page();
  ASSERT_FALSE(written.empty());
  for (const char* profile : {"uniform", "dear_attention"}) {
    for (const Costs& costs : all_costs) {
      MissionCase mission(profile);
      mission.truth.noise = {costs.action_sigma, costs.rank_sigma, 0, 1};
      if (costs.disturbance != nullptr) {
        mission.truth.disturbances = {runtime::read_disturbance(costs.disturbance)};
      }
      double by_layers = 0;
      std::map<std::string, Row> rows;
      const auto add = [&](const std::string& name, const Arrangement& first,
                           const std::vector<BudgetAction>& actions) {
        const Row row = replay(mission, first, actions);
        if (by_layers == 0) by_layers = row.p50;
        rows[name] = row;
        const std::string line = fmt::format(
            "| `{}` | {} | {} | {:.2f} GiB | {:.0f} | {:.0f} | {:+.1f} % | {:.1f} % | {:.1f} % | {} |",
            profile, costs.name, name, static_cast<double>(row.peak) / (1 << 30), 1e3 * row.p50,
            1e3 * row.p95, 100 * (row.p50 / by_layers - 1), 100 * row.idle, 100 * row.imbalance, row.kept);
        fmt::print("{}\n", line);
        EXPECT_NE(written.find(line), std::string::npos) << "not in docs/bubble-budget.md: " << line;
      };
      add("layers", mission.by_layers(), {});
      add("measured", mission.balanced(), {});
      add("budget: cut", mission.balanced(), cuts);
      add("budget: all", mission.balanced(), all);
      // What the budget is for: never worse than what it began with, and better where a rank became slow.
      EXPECT_LT(rows["measured"].p50, rows["layers"].p50);
      EXPECT_LE(rows["budget: cut"].p50, 1.002 * rows["measured"].p50);
      EXPECT_LE(rows["budget: all"].p50, 1.002 * rows["budget: cut"].p50);
    }
  }
}

}  // namespace
}  // namespace penstock::budget
