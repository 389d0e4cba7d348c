// Known delays, put into the real executor, its streams and messages in virtual time: each lands on its cause
// and on who was behind it, to the nanosecond.
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trainer/replay/replayed.h"
#include "trainer/accounting/accountant.h"
#include "trainer/accounting/measured_costs.h"
#include "trainer/accounting/prediction.h"
#include "trainer/replay/rank_times.h"

namespace penstock::replay {
namespace {

using accounting::Accountant;
using accounting::Culprit;
using accounting::Part;
using accounting::StepAccount;
using accounting::StepFigures;
using runtime::ReplayTimes;
using schedule::Program;

constexpr int ranks = 4;
constexpr int micro_batches = 12;
constexpr double action = 0.25;
constexpr double exact = 1e-9;

// Four equal stages of a quarter of a second an action, and what disturbs them.
struct Case {
  explicit Case(const std::string& disturbance, const std::string& name = "zb-h1", double occupancy = 0) {
    const schedule::Schedule schedule = schedule::generate(name, {ranks, micro_batches});
    costs = even_costs(schedule, {action, action, action});
    costs.links = {{0, occupancy}};
    costs.optimizer_step = 0.5;
    program = lower(schedule, costs, {});
    std::vector<runtime::Disturbance> all;
    if (!disturbance.empty()) all.push_back(runtime::read_disturbance(disturbance));
    times.emplace(program, costs, all);
    ReplayOptions options;
    options.steps = 2;
    Accountant accountant(program);
    std::optional<double> end;
    run_replay(program, *times, options, [&](uint64_t step, std::span<const RankStep> all_ranks) {
      std::vector<accounting::RankTimes> records;
      for (int rank = 0; rank < ranks; ++rank)
        records.push_back(times_of(all_ranks[static_cast<size_t>(rank)], program, *times, step, rank));
      account = accountant.account(records, end);
      end = account.end;
      measured.emplace_back(std::move(records));
    });
    figures = figures_of(account, accountant.stages_by_rank());
  }

  double sum(Part part) const {
    double seconds = 0;
    for (const auto& rank : account.ranks) seconds += rank.parts[part];
    return seconds;
  }
  double part(int rank, Part part) const { return account.ranks[static_cast<size_t>(rank)].parts[part]; }
  double waits(int rank) const { return part(rank, Part::wait_forward) + part(rank, Part::wait_backward); }

  schedule::Costs costs;
  Program program;
  std::optional<ReplayTimes> times;
  StepAccount account;
  StepFigures figures;
  std::vector<std::vector<accounting::RankTimes>> measured;
};

double seconds_of(const std::vector<Culprit>& culprits, int rank, int to = -1) {
  double seconds = 0;
  for (const Culprit& culprit : culprits)
    seconds += culprit.rank == rank && culprit.to == to ? culprit.seconds : 0;
  return seconds;
}

void expect_whole(const Case& at) {
  for (const auto& rank : at.account.ranks) {
    EXPECT_NEAR(rank.parts.all(), at.account.seconds(), exact);
    EXPECT_NEAR(rank.parts[Part::unexplained], 0, exact);
    EXPECT_NEAR(rank.parts[Part::launch], 0, exact);
  }
}

TEST(Account, OfAnUndisturbedReplayIsThePrediction) {
  for (const char* name : {"1f1b", "zb-h1", "gpipe"}) {
    const Case at("", name, 0.125);
    expect_whole(at);
    const accounting::Prediction expected = accounting::predict(at.program, at.costs);
    EXPECT_NEAR(at.account.seconds(), expected.account.seconds(), exact) << name;
    EXPECT_NEAR(at.figures.bubble_ratio, expected.figures.bubble_ratio, exact) << name;
    EXPECT_NEAR(at.figures.bubble_ratio_rank_span, expected.figures.bubble_ratio_rank_span, exact) << name;
    for (const Part part : {Part::forward, Part::backward_input, Part::fill, Part::wait_forward,
                            Part::wait_backward, Part::transfer, Part::drain}) {
      for (size_t rank = 0; rank < ranks; ++rank) {
        EXPECT_NEAR(at.account.ranks[rank].parts[part], expected.account.ranks[rank].parts[part], exact)
            << name << ", " << name_of(part) << " of rank " << rank;
      }
    }
    EXPECT_EQ(at.figures.stage_imbalance, 0);
  }
}

TEST(Account, CostsThatStepsShowAreTheCostsThatTheyWereGiven) {
  const Case at("", "zb-h1", 0.125);
  accounting::MeasuredCosts measured(at.program, 2);
  for (const auto& step : at.measured) measured.add(step);
  const schedule::Costs costs = measured.costs();
  for (const schedule::StageCosts& stage : costs.blocks) {
    EXPECT_NEAR(stage.forward, action, exact);
    EXPECT_NEAR(stage.backward_input, action, exact);
    EXPECT_NEAR(stage.backward_weight, action, exact);
  }
  EXPECT_NEAR(costs.link(0, 1, ranks).occupancy, 0.125, exact);
  EXPECT_NEAR(costs.link(3, 2, ranks).occupancy, 0.125, exact);
}

TEST(Account, ASlowRankIsTheRootOfEverybodysWaits) {
  const Case before("", "1f1b");
  const Case at("rank 2 slower 50%", "1f1b");
  expect_whole(at);
  EXPECT_EQ(at.figures.slowest_rank, 2);
  EXPECT_EQ(at.figures.slowest_stage, 2);
  // 1.5 against a mean of 4.5 / 4.
  EXPECT_NEAR(at.figures.stage_imbalance, 1.5 / 1.125 - 1, exact);
  EXPECT_NEAR(at.part(2, Part::forward), 1.5 * before.part(2, Part::forward), exact);
  for (const int rank : {0, 1, 3}) {
    EXPECT_NEAR(at.part(rank, Part::forward), before.part(rank, Part::forward), exact);
    const double more = at.waits(rank) - before.waits(rank);
    EXPECT_GT(more, micro_batches * action / 2);
    const std::vector<Culprit>& roots = at.account.ranks[static_cast<size_t>(rank)].roots;
    EXPECT_EQ(at.account.ranks[static_cast<size_t>(rank)].root()->rank, 2);
    EXPECT_GT(seconds_of(roots, 2) - seconds_of(before.account.ranks[static_cast<size_t>(rank)].roots, 2),
              0.9 * more);
  }
  // Rank 0 waits for rank 1, which is itself waiting.
  EXPECT_NEAR(seconds_of(at.account.ranks[0].peers, 1), at.waits(0), exact);
}

TEST(Account, ASlowLinkIsTransferAndTheRootOfWaitsBehindIt) {
  const Case before("", "1f1b");
  const Case at("link 1->2 +2s", "1f1b");
  expect_whole(at);
  // Every activation that rank 2 waits for is on its way; nobody computes slower.
  EXPECT_GT(at.part(2, Part::transfer), 0.5 * micro_batches * 2);
  EXPECT_NEAR(seconds_of(at.account.ranks[2].links, 1, 2), at.part(2, Part::transfer), exact);
  for (const int rank : {0, 1, 3}) EXPECT_NEAR(at.part(rank, Part::transfer), 0, exact) << rank;
  EXPECT_NEAR(at.figures.stage_imbalance, 0, exact);
  const auto& roots = at.account.ranks[3].roots;
  EXPECT_EQ(at.account.ranks[3].root()->rank, 1);
  EXPECT_EQ(at.account.ranks[3].root()->to, 2);
  EXPECT_GT(seconds_of(roots, 1, 2), 0.8 * at.waits(3));
  EXPECT_GT(at.account.seconds(), before.account.seconds() + 2);
}

TEST(Account, SlowDataOfTheFirstRankHoldsUpAll) {
  const Case before("");
  const Case at("rank 0 data +3s");
  expect_whole(at);
  EXPECT_EQ(at.account.first_rank, 0);
  // Nobody starts before rank 0 does, and it says why.
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_NEAR(at.part(rank, Part::data), 3, exact) << rank;
    EXPECT_NEAR(at.part(rank, Part::fill), before.part(rank, Part::fill), exact) << rank;
    EXPECT_NEAR(at.waits(rank), before.waits(rank), exact) << rank;
  }
  EXPECT_NEAR(at.account.seconds(), before.account.seconds() + 3, exact);
}

TEST(Account, SlowDataOfTheLastRankIsItsOwnAndTheRootOfTheOthersWaits) {
  const Case before("");
  const Case at("rank 3 data +10s");
  expect_whole(at);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(at.part(rank, Part::data), 0) << rank;
  // It comes while the rank could not have begun anyway for the first three quarters of a second.
  EXPECT_NEAR(at.part(3, Part::data), 10 - before.part(3, Part::fill), exact);
  EXPECT_NEAR(at.part(3, Part::fill), before.part(3, Part::fill), exact);
  for (int rank = 0; rank < 3; ++rank) {
    const auto& account = at.account.ranks[static_cast<size_t>(rank)];
    EXPECT_GT(seconds_of(account.roots, 3), 0.9 * (at.waits(rank) - before.waits(rank))) << rank;
  }
}

TEST(Account, ASlowHostIsHostOnItsRank) {
  const Case at("rank 1 host +20ms");
  expect_whole(at);
  // F, I and W of every micro-batch come late by as much; where it would have waited anyway, later still.
  EXPECT_NEAR(at.part(1, Part::host), 3 * micro_batches * 0.02, exact);
  for (const int rank : {0, 2, 3}) EXPECT_NEAR(at.part(rank, Part::host), 0, exact) << rank;
  EXPECT_EQ(at.account.ranks[2].root()->rank, 1);
}

TEST(Account, PausesAreNoBubble) {
  const Case before("");
  for (const auto& [text, part] : {std::pair("evaluation pause 7s", Part::evaluation),
                                   std::pair("checkpoint pause 7s", Part::checkpoint)}) {
    const Case at(text);
    expect_whole(at);
    for (int rank = 0; rank < ranks; ++rank) EXPECT_NEAR(at.part(rank, part), 7, exact);
    EXPECT_NEAR(at.figures.bubble_ratio, before.figures.bubble_ratio, exact);
    EXPECT_GT(at.figures.idle_ratio, before.figures.idle_ratio + 0.2);
    EXPECT_GE(at.figures.idle_ratio, at.figures.bubble_ratio);
  }
}

}  // namespace
}  // namespace penstock::replay
