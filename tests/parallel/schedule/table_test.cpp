// The published formulas, reproduced exactly: costs are whole numbers a chunk, so that == means what it says.
#include <gtest/gtest.h>

#include "tests/parallel/schedule/lowered.h"

namespace penstock::schedule {
namespace {

struct Sizes {
  int ranks;
  int micro_batches;
};

const std::vector<Sizes> sizes{{1, 1},  {1, 5},  {2, 2},  {2, 7},  {3, 6},  {4, 8},
                               {5, 12}, {6, 13}, {8, 16}, {8, 24}, {16, 48}};
const std::vector<StageCosts> unequal{{1, 1, 1}, {1, 2, 1}, {3, 4, 2}, {5, 5, 4}, {2, 3, 3}};

// Idle time of every rank, in units of one chunk's costs.
void expect_idle(const Schedule& schedule, const StageCosts& stage, double idle) {
  const Measures measures = simulated(schedule, stage_costs(schedule, stage));
  for (int r = 0; r < schedule.ranks; ++r) {
    EXPECT_EQ(measures.ranks[static_cast<size_t>(r)].idle, idle)
        << schedule.name << " P = " << schedule.ranks << " M = " << schedule.micro_batches << " rank " << r;
  }
}

// The rank-span idle time: the longest own span less the work.
double span_idle(const Measures& measures) {
  double longest = 0;
  for (const RankMeasures& rank : measures.ranks)
    longest = std::max(longest, rank.last_end - rank.first_start);
  return longest - measures.ranks[0].busy;
}

TEST(Table, GPipeAndOneForwardOneBackwardIdle) {
  for (const auto& [P, M] : sizes) {
    for (const StageCosts& c : unequal) {
      const double idle = (P - 1) * (c.forward + c.backward_input + c.backward_weight);
      expect_idle(generate("gpipe", {P, M}), c, idle);
      expect_idle(generate("1f1b", {P, M}), c, idle);
    }
    for (const char* name : {"gpipe", "1f1b"}) {
      const Schedule schedule = generate(name, {P, M});
      EXPECT_NEAR(simulated(schedule, stage_costs(schedule, {1, 1, 1})).bubble_ratio, (P - 1.0) / (M + P - 1),
                  1e-14);
    }
  }
}

TEST(Table, InterleavedAndBreadthFirstIdle) {
  for (const auto& [P, M] : sizes) {
    for (const int v : {1, 2, 3, 4}) {
      for (const StageCosts& c : unequal) {
        // A chunk costs c: (P−1)(F+B)/v in rank units is (P−1)(F+B) in chunk units.
        const double idle = (P - 1) * (c.forward + c.backward_input + c.backward_weight);
        if (M % P == 0) expect_idle(generate("interleaved", {P, M, v}), c, idle);
        if (M >= P) expect_idle(generate("bfs", {P, M, v}), c, idle);
      }
      if (M % P != 0) continue;
      const Schedule schedule = generate("interleaved", {P, M, v});
      EXPECT_NEAR(simulated(schedule, stage_costs(schedule, {1, 1, 1})).bubble_ratio,
                  (P - 1.0) / (v * M + P - 1), 1e-14);
    }
  }
}

// The published (P−1)(F+I−kW) hold while W is no longer than F and I (H1), and F+I no shorter than 2W (H2);
// the maxima say what holds beyond.
TEST(Table, ZeroBubbleIdle) {
  const std::vector<StageCosts> costs{{1, 1, 1}, {3, 4, 2}, {5, 5, 4}, {2, 3, 3},
                                      {1, 1, 4}, {1, 4, 1}, {4, 1, 2}};
  for (const auto& [P, M] : sizes) {
    for (const StageCosts& c : costs) {
      const double F = c.forward;
      const double I = c.backward_input;
      const double W = c.backward_weight;
      if (M > P) expect_idle(generate("zb-h1", {P, M}), c, (P - 1) * std::max({F, I, F + I - W}));
      if (M < 2 * P) continue;
      const Schedule h2 = generate("zb-h2", {P, M});
      expect_idle(h2, c, (P - 1) * std::max({F, F + I - 2 * W, I - F}));
      EXPECT_EQ(span_idle(simulated(h2, stage_costs(h2, c))),
                (P - 1) * std::max({0.0, F + I - 2 * W, I - F}));
    }
  }
}

// H2 hides the transfers of the steady state in its longer warm-up: (P−1)(F+I−2W+2c) under the rank-span
// metric. H1 pays them twice, as 1F1B does.
TEST(Table, ZeroBubbleIdleWithTransfers) {
  for (const double c : {1.0, 2.0, 3.0}) {
    for (const StageCosts& costs : {StageCosts{10, 10, 10}, {11, 13, 10}}) {
      const double overlap = costs.forward + costs.backward_input;
      const Schedule h1 = generate("zb-h1", {8, 32});
      const Schedule h2 = generate("zb-h2", {8, 32});
      EXPECT_EQ(span_idle(simulated(h1, stage_costs(h1, costs, c))), 7 * (overlap - 10 + 4 * c));
      EXPECT_EQ(span_idle(simulated(h2, stage_costs(h2, costs, c))), 7 * (overlap - 20 + 2 * c));
    }
  }
}

TEST(Table, ZeroBubbleVIdle) {
  for (const auto& [P, M] : sizes) {
    if (M < 2 * P - 1) continue;
    const Schedule schedule = generate("zbv", {P, M});
    expect_idle(schedule, {1, 1, 1}, P - 1);  // (P−1)F/2 in rank units
    const Measures measures = simulated(schedule, stage_costs(schedule, {1, 1, 1}));
    EXPECT_EQ(measures.bubble_ratio_rank_span, 0);
    EXPECT_NEAR(measures.bubble_ratio, (P - 1.0) / (6 * M + P - 1), 1e-14);
    if (P > 1) {
      EXPECT_GT(simulated(schedule, stage_costs(schedule, {1, 2, 1})).bubble_ratio_rank_span, 0);
    }
  }
}

TEST(Table, WorkedNumbers) {
  const auto idle = [](const char* name, int P, int M, int v) {
    const Schedule schedule = generate(name, {P, M, v});
    return simulated(schedule, uniform_costs(P, schedule.chunks, {1, 1, 1})).ranks[0].idle;
  };
  EXPECT_EQ(idle("1f1b", 4, 8, 1), 9);
  EXPECT_EQ(idle("interleaved", 4, 8, 2), 4.5);
  EXPECT_EQ(idle("zb-h1", 4, 8, 1), 3);
  EXPECT_EQ(idle("zbv", 4, 8, 2), 1.5);
  EXPECT_EQ(idle("1f1b", 8, 24, 1), 21);
  EXPECT_EQ(idle("interleaved", 8, 24, 2), 10.5);
  EXPECT_EQ(idle("zb-h1", 8, 24, 1), 7);
  EXPECT_EQ(idle("zbv", 8, 24, 2), 3.5);
  EXPECT_EQ(idle("interleaved", 8, 24, 4), 5.25);
}

TEST(Table, ImbalanceDominates) {
  const Schedule schedule = generate("1f1b", {8, 32});
  Costs costs = stage_costs(schedule, {10, 10, 10});
  const double even = simulated(schedule, costs).makespan;
  costs.blocks.back() = {11, 11, 11};
  const Measures slow = simulated(schedule, costs);
  EXPECT_NEAR(slow.makespan / even - 1, 0.082, 0.0005);
  // With imbalance s, no schedule idles less than s/(1+s) of the step.
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.versions > 1) continue;
    const Schedule other = generate(kind.name, {8, 32});
    Costs uneven = stage_costs(other, {10, 10, 10});
    uneven.blocks.back() = {13, 13, 13};
    double busiest = 0;
    double mean = 0;
    const Measures measures = simulated(other, uneven);
    for (const RankMeasures& rank : measures.ranks) {
      busiest = std::max(busiest, rank.busy);
      mean += rank.busy / 8;
    }
    const double s = busiest / mean - 1;
    EXPECT_GE(measures.bubble_ratio, s / (1 + s) - 1e-12) << kind.name;
  }
}

TEST(Table, SlackHidesTransfers) {
  const auto bubble = [](int slack) {
    const Schedule schedule = generate("1f1b", {8, 32, 0, slack});
    return 100 * simulated(schedule, stage_costs(schedule, {10, 10, 10}, 1)).bubble_ratio;
  };
  const Schedule plain = generate("1f1b", {8, 32});
  EXPECT_NEAR(100 * simulated(plain, stage_costs(plain, {10, 10, 10})).bubble_ratio, 17.95, 0.005);
  EXPECT_NEAR(bubble(0), 22.46, 0.005);
  EXPECT_NEAR(bubble(1), 20.79, 0.005);
  EXPECT_NEAR(bubble(2), 20.13, 0.005);
  for (int r = 0; r < 7; ++r) {
    EXPECT_EQ(peak_slots(generate("1f1b", {8, 32, 0, 2}), r), 8 - r + 2);
  }
  EXPECT_EQ(peak_slots(generate("1f1b", {8, 32, 0, 2}), 7), 1);
}

TEST(Table, DualPipeIdle) {
  const std::vector<std::pair<int, double>> two_copies{{4, 1}, {8, 4}, {16, 8}};
  for (const auto& [P, idle] : two_copies) {
    for (const int M : {2 * P, 2 * P + 2, 3 * P, 4 * P}) {
      const Schedule schedule = generate("dualpipe", {P, M});
      expect_idle(schedule, {1, 1, 1}, idle);
      LoweringOptions indivisible;
      indivisible.fuse_pairs = true;
      EXPECT_EQ(simulated(schedule, stage_costs(schedule, {1, 1, 1}), indivisible).ranks[0].idle, P - 2);
    }
  }
  const std::vector<std::pair<int, double>> folded{{4, 2}, {8, 4}, {16, 8}};
  for (const auto& [P, idle] : folded) {
    for (const int M : {2 * P, 2 * P + 1, 3 * P, 4 * P})
      expect_idle(generate("dualpipev", {P, M}), {1, 1, 1}, 2 * idle);
  }
}

TEST(Table, ChimeraMakespan) {
  for (const int P : {2, 4, 6, 8, 12, 16}) {
    const Schedule schedule = generate("chimera", {P, P});
    for (const StageCosts& c : {StageCosts{1, 1, 1}, {2, 1, 1}, {3, 2, 2}, {1, 2, 1}}) {
      const double B = c.backward_input + c.backward_weight;
      EXPECT_EQ(simulated(schedule, stage_costs(schedule, c)).makespan, P * c.forward + (2 * P - 2) * B) << P;
    }
  }
}

TEST(Table, HanayoIdle) {
  // Measured, for whole multiples of P: (P−1)(1 + M/P)(F+B)/3 a wave at F = I = W.
  for (const int P : {2, 4, 8}) {
    for (const int w : {1, 2, 4}) {
      for (const int k : {1, 2, 4})
        expect_idle(generate("hanayo", {P, k * P, 2 * w}), {1, 1, 1}, 2 * (P - 1) * (1 + k));
    }
  }
}

TEST(Table, VPatternsIdleLessThanOneForwardOneBackward) {
  for (const int P : {4, 5, 6, 8, 12, 16}) {
    for (const int M : {2 * P, 4 * P}) {
      const auto share = [P = P, M](const char* name) {
        const Schedule schedule = generate(name, {P, M});
        return simulated(schedule, uniform_costs(P, 2, {1, 1, 1})).ranks[0].idle / (3 * (P - 1));
      };
      EXPECT_LE(share("v-half"), 0.67) << P;
      EXPECT_LE(share("v-min"), 0.71) << P;
    }
  }
}

TEST(Table, TwoBufferedWeightsHaveNoBubbleInTheSteadyState) {
  for (const auto& [P, M] : sizes) {
    if (M < P) continue;
    const Schedule schedule = generate("2bw", {P, M, 0, 0, 0, 4});
    const Costs costs = stage_costs(schedule, {1, 1, 1});
    const Program program = lower(schedule, costs, {});
    const Measures measures = measure_steady_state(program, simulate(program, costs));
    EXPECT_EQ(measures.makespan, 3 * M);
    EXPECT_EQ(measures.bubble_ratio, 0);
    for (int r = 0; r < P; ++r) EXPECT_EQ(measures.ranks[static_cast<size_t>(r)].peak_slots, P - r);
  }
}

TEST(Table, PeakSlots) {
  for (const auto& [P, M] : sizes) {
    const auto expect = [P = P, M = M](const char* name, int v, auto formula) {
      const Schedule schedule = generate(name, {P, M, v});
      for (int r = 0; r < P; ++r)
        EXPECT_EQ(peak_slots(schedule, r), formula(r)) << name << " P = " << P << " r = " << r;
    };
    expect("gpipe", 0, [M = M](int) { return M; });
    expect("1f1b", 0, [P = P, M = M](int r) { return std::min(P - r, M); });
    if (M >= 2 * P - 1) expect("zbv", 0, [P = P](int) { return P; });
    if (M >= P) expect("zb-h1", 0, [P = P](int) { return P; });
    if (M >= 2 * P) expect("zb-h2", 0, [P = P](int) { return 2 * P - 1; });
    if (M >= 2 * P) expect("dualpipev", 0, [P = P](int) { return P + 0.5; });
    if (M >= 2 * P && M % 2 == 0 && P % 2 == 0) expect("dualpipe", 0, [P = P](int) { return P + 1; });
    for (const int v : {1, 2, 3, 4}) {
      expect("bfs", v, [M = M](int) { return M; });
      if (M % P != 0 || M < 2 * P) continue;
      expect("interleaved", v, [P = P, v](int r) { return (2.0 * (P - r - 1) + (v - 1) * P + 1) / v; });
    }
    for (const int w : {1, 2}) {
      for (int r = 0; r < P; ++r) EXPECT_LE(peak_slots(generate("hanayo", {P, M, 2 * w}), r), P);
    }
    for (int r = 0; r < P; ++r) {
      EXPECT_LE(peak_slots(generate("v-half", {P, M}), r), P / 2 + 1);     // (P+2)/2
      EXPECT_LE(peak_slots(generate("v-min", {P, M}), r), (P + 6) / 3.0);  // about (P+4)/3
    }
  }
  for (const int P : {2, 4, 8, 16}) {
    const Schedule schedule = generate("chimera", {P, 2 * P});
    EXPECT_EQ(peak_slots(schedule, 0), P / 2 + 1);
    EXPECT_EQ(peak_slots(schedule, P - 1), P / 2 + 1);
    EXPECT_EQ(peak_slots(schedule, P / 2), P);
  }
}

}  // namespace
}  // namespace penstock::schedule
