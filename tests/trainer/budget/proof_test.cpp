// The controller in replay, over the mission's cases: noise does not move it, a rank that becomes slow does.
// The "Whole" tests are the full ones; each prints a row of what it saw.
#include <ostream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/trainer/budget/replayed_run.h"
#include "trainer/replay/replay_run.h"
#include "trainer/replay/step_summary.h"

namespace penstock::budget {
namespace {

constexpr int64_t window = 20;
constexpr int64_t warm_up = 20;
constexpr int64_t patience = 3;

struct NoiseCase {
  const char* profile;
  double correlation;
  int64_t windows;
  uint64_t seed = 1;
  bool all_actions = false;
  bool eager = false;  ///< whatever may gain something is tried, so that trials have something to refuse

  friend std::ostream& operator<<(std::ostream& out, const NoiseCase& each) {
    return out << each.profile << " " << each.correlation << " " << each.windows;
  }
};

std::string name_of_case(const testing::TestParamInfo<NoiseCase>& info) {
  return fmt::format("{}_correlation_{:.0f}_windows_{}_seed_{}{}", info.param.profile,
                     100 * info.param.correlation, info.param.windows, info.param.seed,
                     info.param.all_actions ? "_all_actions"
                     : info.param.eager     ? "_eager"
                                            : "");
}

// Drawn steps stand for those of the real executor, its streams and its messages.
TEST(DrawnPipeline, TakesWhatTheExecutorTakes) {
  for (const char* profile : {"uniform", "dear_attention"}) {
    MissionCase mission(profile);
    mission.truth.noise = {0.1, 0.05, 0.9, 7};
    mission.truth.disturbances = {runtime::read_disturbance("step 50.. rank 3 slower 30%")};
    DrawnPipeline drawn(mission.balanced(), mission.truth);
    replay::ReplayOptions options;
    options.first_step = 1;
    options.steps = 100;
    replay::ReplayAccount account(drawn.program());
    double before = 0;
    replay::run_replay(
        drawn.program(), drawn.times(), options, [&](uint64_t step, std::span<const replay::RankStep> ranks) {
          const StepObservation expected = drawn.draw(static_cast<int64_t>(step));
          double end = 0;
          for (const replay::RankStep& rank : ranks) end = std::max(end, rank.times.end);
          EXPECT_NEAR((end - before) / expected.seconds, 1, 1e-9) << profile << ", step " << step;
          before = end;
          const accounting::StepFigures figures = account.add(step, ranks).figures;
          EXPECT_NEAR(figures.stage_imbalance, expected.stage_imbalance, 1e-9) << step;
          // Ranks whose optimizer is done early begin early: to the account that is part of the step before.
          EXPECT_NEAR(figures.bubble_ratio, expected.bubble_ratio, 1e-3) << step;
          EXPECT_NEAR(figures.drain, expected.drain, 1e-9) << step;
        });
  }
}

class UnderNoise : public testing::TestWithParam<NoiseCase> {};

// Actions vary by 10 %, ranks by 5 % from step to step, the limit is always broken, and there is nothing to
// gain.
TEST_P(UnderNoise, NothingIsKeptWithoutGain) {
  const NoiseCase& at = GetParam();
  MissionCase mission(at.profile);
  mission.truth.noise = {0.1, 0.05, at.correlation, at.seed};
  std::vector<BudgetAction> actions{BudgetAction::repartition};
  if (at.all_actions) {
    actions = {BudgetAction::repartition, BudgetAction::recompute, BudgetAction::warmup_slack,
               BudgetAction::schedule,    BudgetAction::chunks,    BudgetAction::conservative};
  }
  const Arrangement first = at.all_actions ? mission.best() : mission.balanced();
  ControllerOptions options = mission.options(first, actions);
  if (at.eager) {
    options.apply_confidence = 0.5;
    options.budget.min_gain = 0.002;
    options.budget.cooldown_windows = 1;
  }
  ReplayedRun run(mission.truth, options);
  run.run_to(warm_up + at.windows * window);
  size_t kept = 0;
  for (const Applied& each : run.applied()) {
    if (!each.kept) continue;
    ++kept;
    const double before = mean_step(each.before, mission.truth, 4000, 1234);
    const double after = mean_step(each.after, mission.truth, 4000, 1234);
    EXPECT_LT(after, before) << to_string(each.before) << " -> " << to_string(each.after);
  }
  size_t weighed = 0;
  for (const BudgetEvent& event : run.events()) weighed += event.name == "budget_decision" ? 1 : 0;
  EXPECT_GE(weighed, 1U);
  // A thousandth of the windows, where steps know nothing of one another.
  if (at.correlation == 0 && !at.eager) {
    EXPECT_LT(1000 * run.applied().size(), static_cast<size_t>(at.windows));
  }
  fmt::print("{:<15} correlation {:<4} seed {} {}: {} windows, weighed {}, applied {}, kept {}\n", at.profile,
             at.correlation, at.seed,
             at.all_actions ? "all actions"
             : at.eager     ? "eager"
                            : "repartition",
             at.windows, weighed, run.applied().size(), kept);
}

INSTANTIATE_TEST_SUITE_P(Quick, UnderNoise,
                         testing::Values(NoiseCase{"uniform", 0, 300}, NoiseCase{"uniform", 0.9, 300},
                                         NoiseCase{"dear_attention", 0, 300},
                                         NoiseCase{"dear_attention", 0.9, 300},
                                         NoiseCase{"uniform", 0.9, 600, 3, false, true}),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Whole, UnderNoise,
                         testing::Values(NoiseCase{"uniform", 0, 10'000}, NoiseCase{"uniform", 0.9, 10'000},
                                         NoiseCase{"dear_attention", 0, 10'000},
                                         NoiseCase{"dear_attention", 0.9, 10'000},
                                         NoiseCase{"uniform", 0, 2'000, 2, true},
                                         NoiseCase{"uniform", 0.9, 2'000, 2, true},
                                         NoiseCase{"uniform", 0, 5'000, 3, false, true},
                                         NoiseCase{"uniform", 0.9, 5'000, 3, false, true},
                                         NoiseCase{"dear_attention", 0.9, 5'000, 3, false, true}),
                         name_of_case);

struct DriftCase {
  const char* profile;
  int percent;
  double action_sigma = 0;
  double rank_sigma = 0;
  double correlation = 0;

  friend std::ostream& operator<<(std::ostream& out, const DriftCase& each) {
    return out << each.profile << " " << each.percent << " %";
  }
};

std::string name_of_drift(const testing::TestParamInfo<DriftCase>& info) {
  const DriftCase& at = info.param;
  return fmt::format("{}_{}_percent_actions_{:.0f}_ranks_{:.0f}_correlation_{:.0f}", at.profile, at.percent,
                     100 * at.action_sigma, 100 * at.rank_sigma, 100 * at.correlation);
}

/// What became of a slow rank.
struct Drifted {
  double best = 0;        ///< gain of the planner's best cut for the slow rank's true costs, without noise
  double gain = 0;        ///< of what was kept `patience` + 2 windows after the change
  double noisy_best = 0;  ///< the same under the case's noise
  double noisy_gain = 0;
  std::string events;  ///< what the controller said
  size_t later = 0;    ///< kept gain within ten windows more
};

Drifted drift(const DriftCase& at, int rank, int64_t changed_at) {
  MissionCase mission(at.profile);
  const Arrangement first = mission.balanced();
  const ControllerOptions options = mission.options(first, {BudgetAction::repartition});
  mission.truth.noise = {at.action_sigma, at.rank_sigma, at.correlation, 1};
  mission.truth.disturbances = {
      runtime::read_disturbance(fmt::format("step {}.. rank {} slower {}%", changed_at, rank, at.percent))};
  ReplayedRun run(mission.truth, options);
  run.run_to(changed_at - 1 + (patience + 2) * window);
  // A trial under way is not kept yet.
  const Arrangement kept =
      !run.applied().empty() && run.applied().back().ended == 0 ? run.applied().back().before : run.running();
  planner::Machine drifted = mission.truth.machine;
  drifted.pace[static_cast<size_t>(rank)] = 1 + at.percent / 100.0;
  const planner::UnitSums sums(mission.truth.workloads[0].model);
  const auto seconds = [&](const Arrangement& arrangement) {
    return SimulatedArrangement(arrangement, drifted, mission.truth.workloads[0].micro_batches, false)
        .step(sums, drifted.pace);
  };
  const Arrangement best = mission.best_cut(drifted, first);
  Drifted made;
  made.best = 1 - seconds(best) / seconds(first);
  made.gain = 1 - seconds(kept) / seconds(first);
  for (const BudgetEvent& event : run.events()) made.events += fmt::format("{}: {}", event.step, event.text);
  Truth truth = mission.truth;
  truth.disturbances[0].first = 0;
  constexpr int64_t steps = 1000;
  const double noisy = mean_step(first, truth, steps, 99);
  made.noisy_best = 1 - mean_step(best, truth, steps, 99) / noisy;
  made.noisy_gain = 1 - mean_step(kept, truth, steps, 99) / noisy;
  run.run_to(changed_at - 1 + (patience + 12) * window);
  made.later = !run.applied().empty() && run.applied().back().kept ? 1 : 0;
  return made;
}

class SlowRank : public testing::TestWithParam<DriftCase> {};

TEST_P(SlowRank, MostOfThePlannersGainIsKeptInTime) {
  const DriftCase& at = GetParam();
  const double min_gain = BubbleBudgetSection{}.min_gain;
  // Noise takes some of the gain, and what is left has to stand out from it.
  const double sure = at.rank_sigma == 0 ? min_gain : 2.5 * min_gain;
  int owed = 0;
  int in_time = 0;
  int later = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const Drifted seen = drift(at, rank, warm_up + 10 * window + 1);
    fmt::print(
        "{:<15} rank {} slower {} %: kept {:5.2f} % of {:5.2f} %; under noise {:5.2f} % of {:5.2f} %\n",
        at.profile, rank, at.percent, 100 * seen.gain, 100 * seen.best, 100 * seen.noisy_gain,
        100 * seen.noisy_best);
    EXPECT_GE(seen.noisy_gain, 0) << rank;
    if (seen.noisy_best <= sure) continue;
    ++owed;
    in_time += seen.noisy_gain >= 0.8 * seen.noisy_best ? 1 : 0;
    later += static_cast<int>(seen.later);
    if (at.correlation == 0) {
      EXPECT_GE(seen.noisy_gain, 0.8 * seen.noisy_best) << "rank " << rank << "\n" << seen.events;
    }
  }
  EXPECT_GT(owed, 0);
  fmt::print(
      "{:<15} slower {} %, actions {} %, ranks {} %, correlation {}: {} ranks with more than {:.1f} % to "
      "gain; 80 % of it kept within patience + 2 windows: {}; something kept within ten windows more: {}\n",
      at.profile, at.percent, 100 * at.action_sigma, 100 * at.rank_sigma, at.correlation, owed, 100 * sure,
      in_time, later);
}

INSTANTIATE_TEST_SUITE_P(Quick, SlowRank,
                         testing::Values(DriftCase{"uniform", 20}, DriftCase{"dear_attention", 20}),
                         name_of_drift);
INSTANTIATE_TEST_SUITE_P(
    Whole, SlowRank,
    testing::Values(DriftCase{"uniform", 15}, DriftCase{"uniform", 30}, DriftCase{"dear_attention", 15},
                    DriftCase{"dear_attention", 30}, DriftCase{"uniform", 20, 0.1, 0.05},
                    DriftCase{"uniform", 30, 0.1, 0.05}, DriftCase{"dear_attention", 20, 0.1, 0.05},
                    DriftCase{"dear_attention", 30, 0.1, 0.05}, DriftCase{"uniform", 30, 0.1, 0.05, 0.9},
                    DriftCase{"dear_attention", 30, 0.1, 0.05, 0.9}),
    name_of_drift);

// The change comes in the middle of a window, which then counts as one.
TEST(SlowRankWithinAWindow, IsSeenAsSoon) {
  const Drifted seen = drift({"uniform", 20}, 1, warm_up + 10 * window + 1 + window / 2);
  EXPECT_GE(seen.gain, 0.8 * seen.best);
}

}  // namespace
}  // namespace penstock::budget
