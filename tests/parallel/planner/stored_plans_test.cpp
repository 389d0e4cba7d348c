// Plans of stored profiles. A change of the planner that changes one shows both, side by side; where the new
// one is meant, the file that the message names is copied over the fixture.
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "parallel/planner/plan.h"
#include "tests/parallel/planner/stored_profile.h"

namespace penstock::planner {
namespace {

/// A plan that is asked for.
struct Stored {
  const char* name;
  const char* profile;
  int ranks;
  int micro_batches;
  double memory_gb;  // 0: no limit
  const char* schedule = "auto";
  int replicas = 1;

  friend std::ostream& operator<<(std::ostream& out, const Stored& each) { return out << each.name; }
};

constexpr Stored stored[] = {
    {"uniform", "uniform", 8, 80, 38},
    {"dear_attention", "dear_attention", 8, 80, 38},
    {"large_vocabulary", "large_vocabulary", 8, 64, 60},
    {"heavy_embedding", "heavy_embedding", 8, 64, 60},
    {"long_sequence", "long_sequence", 8, 32, 70},
    {"two_slow_ranks", "two_slow_ranks", 8, 64, 60},
    {"more_ranks_than_layers", "few_layers", 6, 24, 0},
    {"memory_tight", "uniform", 8, 64, 21},
    {"slow_link", "slow_link", 8, 64, 60},
    {"all_links_slow", "all_links_slow", 8, 64, 60, "1f1b"},
    {"tied", "tied", 4, 32, 110},
    {"thirty_layers_on_four", "thirty_layers", 4, 32, 80},
    {"few_micro_batches", "no_head", 8, 5, 0},
    {"replicated", "replicated", 8, 32, 60, "zb-h1", 4},
    {"interleaved", "uniform", 4, 32, 0, "interleaved"},
};

std::string percent(double ratio) {
  return fmt::format("{:.1f} %", 100 * ratio);
}

std::string row(const Prediction& prediction) {
  return fmt::format("step {:.3f} s, bubble {}, idle {}, imbalance {}, peak {:.1f} GB{}", prediction.step,
                     percent(prediction.measures.bubble_ratio), percent(prediction.idle_ratio),
                     percent(prediction.imbalance), static_cast<double>(prediction.peak_memory) / 1e9,
                     prediction.fits ? "" : ", TOO MUCH");
}

std::string text_of(const Plan& plan) {
  std::vector<const char*> modes;
  for (const Recompute mode : plan.chosen.layout.recompute) modes.push_back(to_string(mode));
  std::string text = fmt::format("{}, {} chunks, slack {}\nunits {}\nrecompute {}\n", plan.chosen.schedule,
                                 plan.chosen.chunks, plan.chosen.slack,
                                 fmt::join(plan.chosen.layout.units, " "), fmt::join(modes, " "));
  text += row(plan.chosen.prediction) + "\n";
  for (const OtherCut& cut : plan.cuts)
    text += fmt::format("by {}: {}\n", to_string(cut.cut), row(cut.prediction));
  return text;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string side_by_side(const std::string& expected, const std::string& found) {
  std::istringstream left(expected);
  std::istringstream right(found);
  std::string text;
  std::string a;
  std::string b;
  while (true) {
    const bool more_left = static_cast<bool>(std::getline(left, a));
    const bool more_right = static_cast<bool>(std::getline(right, b));
    if (!more_left && !more_right) return text;
    if (!more_left) a.clear();
    if (!more_right) b.clear();
    text += fmt::format("{:<90} {} {}\n", a, a == b ? ' ' : '|', b);
  }
}

class StoredPlans : public testing::TestWithParam<Stored> {};

TEST_P(StoredPlans, AreAsExpected) {
  const Stored& each = GetParam();
  const Profile profile = stored_profile(each.profile);
  PlanRequest request;
  request.machine = stored_machine(profile, each.ranks);
  request.machine.replicas = each.replicas;
  if (each.memory_gb > 0) request.machine.memory_limit = {static_cast<int64_t>(each.memory_gb * 1e9)};
  request.workloads.push_back({model_costs(profile, 1), each.micro_batches});
  request.schedule = each.schedule;
  request.budget = {3e7, 3e4};
  const std::string found = text_of(make_plan(request));
  const std::string expected = read(std::string(PENSTOCK_FIXTURES) + "/plans/" + each.name + ".txt");
  const std::filesystem::path folder = std::filesystem::path(PENSTOCK_BINARY_DIR) / "plans";
  std::filesystem::create_directories(folder);
  const std::filesystem::path now = folder / (std::string(each.name) + ".txt");
  std::ofstream(now) << found;
  EXPECT_EQ(found, expected) << "stored | now (" << now.string() << "):\n" << side_by_side(expected, found);
}

INSTANTIATE_TEST_SUITE_P(All, StoredPlans, testing::ValuesIn(stored),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace penstock::planner
