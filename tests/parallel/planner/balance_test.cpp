// 32 layers on 8 ranks, 80 micro-batches: what balancing by measured cost gains over counting layers, where
// the head is nearly a layer.
#include <gtest/gtest.h>

#include "parallel/planner/plan.h"
#include "tests/parallel/planner/stored_profile.h"

namespace penstock::planner {
namespace {

constexpr int ranks = 8;
constexpr int micro_batches = 80;

class Balance {
 public:
  explicit Balance(const std::string& name) {
    const Profile profile = stored_profile(name);
    request_.machine = stored_machine(profile, ranks);
    request_.workloads.push_back({model_costs(profile, 1), micro_batches});
  }

  /// 1F1B with four layers a rank.
  Prediction layer_cut(Recompute mode) const {
    PlanRequest request = request_;
    request.schedule = "1f1b";
    request.slack = 0;
    request.cut = CutBy::layers;
    request.recompute.allowed = {false, false, false};
    request.recompute.allowed[static_cast<size_t>(mode)] = true;
    return make_plan(request).chosen.prediction;
  }

  /// With at most so much memory on every rank.
  Prediction planned(const std::string& schedule, int64_t memory) const {
    PlanRequest request = request_;
    request.schedule = schedule;
    if (schedule == "1f1b") request.slack = 0;
    request.machine.memory_limit = {memory};
    return make_plan(request).chosen.prediction;
  }

 private:
  PlanRequest request_;
};

int64_t within_two_percent(const Prediction& base) {
  return base.peak_memory * 102 / 100;
}

double busy(const Prediction& prediction) {
  double sum = 0;
  for (const auto& rank : prediction.measures.ranks) sum += rank.busy;
  return sum;
}

// What is not work is idle: a row that says otherwise was measured wrong.
void expect_consistent(const Prediction& base, const Prediction& other) {
  const double by_time = other.step / base.step * (1 - other.idle_ratio) / (1 - base.idle_ratio);
  EXPECT_NEAR(by_time / (busy(other) / busy(base)), 1, 0.01);
}

double shorter(const Prediction& base, const Prediction& other) {
  return 1 - other.step / base.step;
}

TEST(BalanceOfUniformLayers, CountingLayersLeavesAFifthIdle) {
  const Prediction base = Balance("uniform").layer_cut(Recompute::none);
  EXPECT_NEAR(base.imbalance, 0.18, 0.002);
  EXPECT_NEAR(base.measures.bubble_ratio, 0.21, 0.005);
  EXPECT_EQ(base.slowest_rank, ranks - 1);
}

TEST(BalanceOfUniformLayers, ByMeasuredCost) {
  const Balance balance("uniform");
  const Prediction base = balance.layer_cut(Recompute::none);
  const Prediction planned = balance.planned("1f1b", within_two_percent(base));
  EXPECT_LE(planned.imbalance, 0.077);
  EXPECT_LE(planned.idle_ratio, 0.14);
  EXPECT_GE(shorter(base, planned), 0.08);
  EXPECT_LE(planned.peak_memory, within_two_percent(base));
  expect_consistent(base, planned);
}

TEST(BalanceOfUniformLayers, WithItsOwnSchedule) {
  const Balance balance("uniform");
  const Prediction base = balance.layer_cut(Recompute::none);
  const Prediction planned = balance.planned("auto", within_two_percent(base));
  EXPECT_LE(planned.idle_ratio, 0.09);
  EXPECT_GE(shorter(base, planned), 0.13);
  EXPECT_LE(planned.peak_memory, within_two_percent(base));
  expect_consistent(base, planned);
}

TEST(BalanceOfUniformLayers, WithRecomputationWhereMemoryAsksForIt) {
  const Balance balance("uniform");
  const Prediction base = balance.layer_cut(Recompute::full);
  const Prediction planned = balance.planned("1f1b", base.peak_memory);
  EXPECT_GE(shorter(base, planned), 0.13);
  EXPECT_LE(planned.peak_memory, base.peak_memory);
  expect_consistent(base, planned);
}

TEST(BalanceOfDearAttention, CountingLayersLeavesAFifthIdle) {
  const Prediction base = Balance("dear_attention").layer_cut(Recompute::none);
  EXPECT_NEAR(base.imbalance, 0.18, 0.006);
  EXPECT_NEAR(base.measures.bubble_ratio, 0.21, 0.005);
}

TEST(BalanceOfDearAttention, ByMeasuredCost) {
  const Balance balance("dear_attention");
  const Prediction base = balance.layer_cut(Recompute::none);
  const Prediction planned = balance.planned("1f1b", within_two_percent(base));
  EXPECT_LE(planned.imbalance, 0.01);
  EXPECT_LE(planned.idle_ratio, 0.09);
  EXPECT_GE(shorter(base, planned), 0.13);
  EXPECT_LE(planned.peak_memory, within_two_percent(base));
  expect_consistent(base, planned);
}

TEST(BalanceOfDearAttention, WithItsOwnSchedule) {
  const Balance balance("dear_attention");
  const Prediction base = balance.layer_cut(Recompute::none);
  const Prediction planned = balance.planned("auto", within_two_percent(base));
  EXPECT_LE(planned.idle_ratio, 0.05);
  EXPECT_GE(shorter(base, planned), 0.17);
  EXPECT_LE(planned.peak_memory, within_two_percent(base));
  expect_consistent(base, planned);
}

TEST(BalanceOfDearAttention, WithRecomputationWhereMemoryAsksForIt) {
  const Balance balance("dear_attention");
  const Prediction base = balance.layer_cut(Recompute::full);
  const Prediction planned = balance.planned("1f1b", base.peak_memory);
  EXPECT_GE(shorter(base, planned), 0.13);
  EXPECT_LE(planned.peak_memory, base.peak_memory);
  expect_consistent(base, planned);
}

}  // namespace
}  // namespace penstock::planner
