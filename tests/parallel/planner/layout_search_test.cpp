// The search against all layouts there are.
#include "parallel/planner/layout_search.h"

#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "parallel/planner/cut.h"
#include "parallel/planner/plan.h"
#include "tests/parallel/planner/any_model.h"

namespace penstock::planner {
namespace {

using schedule::Schedule;

/// A model on a machine, and the best that any layout of a schedule makes of it.
struct Case {
  ModelCosts model;
  Machine machine;
  Schedule schedule;
};

Case any_case(Dice& dice) {
  const int units = dice.between(2, 7);
  const int ranks = dice.between(1, std::min(units, 4));
  Case made;
  made.model = any_model(dice, units, dice.coin());
  made.machine = any_machine(dice, ranks);
  made.schedule = any_schedule(dice, ranks, std::min(units, 4));
  return made;
}

// Calls `visit` with every layout.
void for_each_layout(const Case& made, const std::function<void(const Layout&)>& visit) {
  const int S = made.schedule.blocks();
  const int U = static_cast<int>(made.model.units.size());
  size_t modes = 1;
  for (int stage = 0; stage < S; ++stage) modes *= recompute_modes;
  Layout layout;
  const std::function<void(int)> place = [&](int left) {
    const int after = S - static_cast<int>(layout.units.size()) - 1;
    if (after < 0) {
      for (size_t code = 0; code < modes; ++code) {
        layout.recompute.clear();
        for (size_t digits = code, stage = 0; stage < layout.units.size(); ++stage, digits /= recompute_modes)
          layout.recompute.push_back(static_cast<Recompute>(digits % recompute_modes));
        visit(layout);
      }
      return;
    }
    for (int units = after == 0 ? left : 1; units <= left - after; ++units) {
      layout.units.push_back(units);
      place(left - units);
      layout.units.pop_back();
    }
  };
  place(U);
}

// As the planner assumes until a program is lowered.
constexpr BoundaryBuffers assumed{2, 2, 2, 2};

int64_t overflow(const Case& made, const UnitSums& sums, const std::vector<SlotCounts>& slots,
                 const Layout& layout) {
  int64_t over = 0;
  for (int rank = 0; rank < made.machine.ranks; ++rank) {
    const int64_t bytes = rank_memory(sums, made.schedule, layout, slots, assumed, rank).total();
    over += std::max<int64_t>(0, bytes - made.machine.limit_of(rank));
  }
  return over;
}

Score best_of_all(const Case& made, const UnitSums& sums) {
  const std::vector<SlotCounts> slots = slot_counts(made.schedule);
  StepForecast forecast(made.schedule, made.machine.replicas > 1, made.model.tied_embeddings);
  Score best{std::numeric_limits<int64_t>::max(), 0, 0};
  for_each_layout(made, [&](const Layout& layout) {
    const int64_t over = overflow(made, sums, slots, layout);
    if (over > best.overflow) return;
    const double step = forecast.time(layout_costs(sums, made.machine, made.schedule, layout)).step;
    if (over < best.overflow || step < best.step) best = {over, step, 0};
  });
  return best;
}

// A limit between what the leanest and the greediest layout take of a rank.
void limit_memory(Case& made, const UnitSums& sums, Dice& dice) {
  const std::vector<SlotCounts> slots = slot_counts(made.schedule);
  std::vector<int64_t> peaks;
  for_each_layout(made, [&](const Layout& layout) {
    int64_t peak = 0;
    for (int rank = 0; rank < made.machine.ranks; ++rank)
      peak = std::max(peak, rank_memory(sums, made.schedule, layout, slots, assumed, rank).total());
    peaks.push_back(peak);
  });
  const auto at = peaks.begin() + dice.between(0, static_cast<int>(peaks.size()) - 1) / 3;
  std::nth_element(peaks.begin(), at, peaks.end());
  made.machine.memory_limit = {*at - dice.between(0, 1)};
}

TEST(LayoutSearch, FindsTheBestOfAllLayouts) {
  int limited = 0;
  int impossible = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Dice dice(seed);
    Case made = any_case(dice);
    const UnitSums sums(made.model);
    if (dice.coin()) {
      limit_memory(made, sums, dice);
      ++limited;
    }
    const Score truth = best_of_all(made, sums);
    LayoutScorer scorer(sums, made.machine, made.schedule, {});
    const SearchResult found = search_layout(scorer, {}, SearchBudget{});
    ASSERT_TRUE(found.proved) << seed;
    ASSERT_EQ(found.score.overflow, truth.overflow) << "seed " << seed << " " << made.schedule.name;
    impossible += truth.overflow > 0 ? 1 : 0;
    if (truth.overflow > 0) continue;
    ASSERT_DOUBLE_EQ(found.score.step, truth.step) << "seed " << seed << " " << made.schedule.name;
    // What the scorer says of the layout is what it costs.
    StepForecast forecast(made.schedule, made.machine.replicas > 1, made.model.tied_embeddings);
    ASSERT_DOUBLE_EQ(forecast.time(layout_costs(sums, made.machine, made.schedule, found.layout)).step,
                     found.score.step);
    ASSERT_EQ(overflow(made, sums, slot_counts(made.schedule), found.layout), 0);
  }
  EXPECT_GT(limited, 1000);
  EXPECT_GT(impossible, 10);
  EXPECT_LT(impossible, 1000);
}

// Where there are too many layouts for a proof: how much the local search leaves.
TEST(LayoutSearch, MovesAloneComeClose) {
  double worst = 0;
  double sum = 0;
  int cases = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Dice dice(seed);
    const Case made = any_case(dice);
    const UnitSums sums(made.model);
    const Score truth = best_of_all(made, sums);
    LayoutScorer scorer(sums, made.machine, made.schedule, {});
    const SearchResult found = search_layout(scorer, {}, SearchBudget{1e5, 0});
    const double above = found.score.step / truth.step - 1;
    ASSERT_GE(above, -1e-12);
    worst = std::max(worst, above);
    sum += above;
    ++cases;
  }
  EXPECT_LT(worst, 0.1);
  EXPECT_LT(sum / cases, 0.002);
}

// Two copies of the weights: a stage is on two ranks, with one recompute mode, within the memory of both.
TEST(LayoutSearch, OfTwoCopiesComesClose) {
  double worst = 0;
  double sum = 0;
  int cases = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Dice dice(seed);
    Case made = any_case(dice);
    if (made.machine.ranks % 2 != 0) continue;
    while (made.schedule.copies == 1) made.schedule = any_schedule(dice, made.machine.ranks, 4, true);
    const UnitSums sums(made.model);
    if (dice.coin()) limit_memory(made, sums, dice);
    const Score truth = best_of_all(made, sums);
    LayoutScorer scorer(sums, made.machine, made.schedule, {});
    const SearchResult found = search_layout(scorer, {}, SearchBudget{1e5, 0});
    EXPECT_FALSE(found.proved);
    ASSERT_GE(found.score.overflow, truth.overflow);
    StepForecast forecast(made.schedule, made.machine.replicas > 1, made.model.tied_embeddings);
    ASSERT_DOUBLE_EQ(forecast.time(layout_costs(sums, made.machine, made.schedule, found.layout)).step,
                     found.score.step);
    ASSERT_EQ(overflow(made, sums, slot_counts(made.schedule), found.layout), found.score.overflow);
    if (truth.overflow > 0 || found.score.overflow > 0) continue;
    const double above = found.score.step / truth.step - 1;
    ASSERT_GE(above, -1e-12);
    worst = std::max(worst, above);
    sum += above;
    ++cases;
  }
  EXPECT_GT(cases, 80);
  EXPECT_LT(worst, 0.25);
  EXPECT_LT(sum / cases, 0.01);
}

TEST(LayoutSearch, IsNeverWorseThanItsSeeds) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    const int units = dice.between(10, 40);
    const int ranks = dice.between(2, 5);
    const ModelCosts model = any_model(dice, units, true);
    const UnitSums sums(model);
    const Machine machine = any_machine(dice, ranks);
    LayoutScorer scorer(sums, machine, any_schedule(dice, ranks, units), {});
    std::vector<std::vector<int>> seeds;
    for (const CutBy cut : {CutBy::layers, CutBy::parameters, CutBy::flops})
      seeds.push_back(cut_evenly(cut_weights(model, cut), scorer.schedule().blocks()));
    // With next to no budget, too.
    const SearchBudget budget{dice.coin() ? 1.0 : 2e5, 1e3};
    const SearchResult found = search_layout(scorer, seeds, budget);
    EXPECT_EQ(std::accumulate(found.layout.units.begin(), found.layout.units.end(), 0), units);
    EXPECT_GE(*std::min_element(found.layout.units.begin(), found.layout.units.end()), 1);
    for (const std::vector<int>& cut : seeds) {
      Layout layout{cut, {}};
      EXPECT_FALSE(scorer.score(layout).better_than(found.score)) << seed;
    }
  }
}

// The known trap: ranks whose sums are balanced, and chunks that are not.
TEST(LayoutSearch, DoesNotBalanceSumsOfChunks) {
  ModelCosts model;
  for (int unit = 0; unit < 16; ++unit) {
    UnitCosts made;
    const double time = unit < 8 ? 1 : 0.5;
    made.modes.fill({time, 0, time, time, 1, 1, 1, 0});
    model.units.push_back(made);
  }
  Machine machine;
  machine.ranks = 4;
  const UnitSums sums(model);
  LayoutScorer scorer(sums, machine, schedule::generate("interleaved", {4, 8, 2}), {});
  const SearchResult found = search_layout(scorer, {}, SearchBudget{});
  // Two units of each half a rank: the ranks' sums are equal.
  Layout equal_sums{{2, 2, 2, 2, 2, 2, 2, 2}, {}};
  EXPECT_TRUE(found.score.better_than(scorer.score(equal_sums)));
}

TEST(LayoutSearch, EarlyRanksRecomputeMore) {
  ModelCosts model;
  for (int unit = 0; unit < 8; ++unit) {
    UnitCosts made;
    made.modes[0] = {1, 0, 1, 1, 100, 100, 10, 0};
    made.modes[1] = {1, 0.1, 1, 1, 60, 50, 10, 0};
    made.modes[2] = {1, 1, 1, 1, 10, 0, 20, 0};
    model.units.push_back(made);
  }
  Machine machine;
  machine.ranks = 4;
  machine.memory_limit = {700};
  const UnitSums sums(model);
  LayoutScorer scorer(sums, machine, schedule::generate("1f1b", {4, 8}), {});
  Layout layout{{2, 2, 2, 2}, {}};
  EXPECT_EQ(scorer.score(layout).overflow, 0);
  // 4, 3, 2 and 1 micro-batches are held: per unit 200 · held + 10 without, 110 · held + 10 with selective.
  EXPECT_EQ(layout.recompute,
            (std::vector{Recompute::full, Recompute::selective, Recompute::selective, Recompute::none}));
}

}  // namespace
}  // namespace penstock::planner
