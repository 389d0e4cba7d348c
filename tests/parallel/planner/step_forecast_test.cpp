// The forecast against the simulator, which runs the lowered program instruction by instruction.
#include "parallel/planner/step_forecast.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/simulate.h"

namespace penstock::planner {
namespace {

using schedule::Costs;
using schedule::LoweringOptions;
using schedule::Measures;
using schedule::Schedule;

Schedule any_schedule() {
  std::vector<schedule::ScheduleKind> kinds;
  for (const schedule::ScheduleKind& kind : schedule::schedule_kinds()) {
    if (kind.versions == 1) kinds.push_back(kind);
  }
  const schedule::ScheduleKind& kind = kinds[*rc::gen::inRange<size_t>(0, kinds.size())];
  schedule::ScheduleOptions options;
  options.ranks = *rc::gen::inRange(1, 7);
  options.micro_batches = *rc::gen::inRange(1, 21);
  options.chunks = *rc::gen::inRange(kind.min_chunks, std::min(kind.max_chunks, 4) + 1);
  if (kind.name == std::string("1f1b")) options.warmup_slack = *rc::gen::inRange(0, 4);
  RC_PRE(kind.refusal(options).empty());
  return schedule::generate(kind.name, options);
}

// Sixty-fourths, so that sums are exact in any order.
double any_cost(int most) {
  return *rc::gen::inRange(0, 64 * most) / 64.0;
}

Costs any_costs(const Schedule& schedule) {
  Costs costs;
  costs.gradient_reduction.clear();
  for (int block = 0; block < schedule.blocks(); ++block) {
    costs.blocks.push_back({any_cost(10), any_cost(10), any_cost(10)});
    costs.gradient_reduction.push_back(any_cost(5));
  }
  costs.links = {{any_cost(4), 0}};
  costs.tied_sum = any_cost(5);
  costs.optimizer_step = any_cost(5);
  return costs;
}

// With as many buffers as messages, or as few as do not slow the step.
Measures simulated(const Schedule& schedule, const Costs& costs, bool reduces, bool tied,
                   bool bounded = false) {
  LoweringOptions options;
  options.reduce_gradients = reduces;
  options.tied_embeddings = tied;
  options.receive_lead = schedule::max_micro_batches;
  if (bounded) options.receive_lead = sufficient_receive_lead(schedule, costs, options);
  const schedule::Program program = lower(schedule, costs, options);
  return measure(program, simulate(program, costs));
}

RC_GTEST_PROP(StepForecast, IsTheSimulatorWhereTransfersOnlyDelay, ()) {
  const Schedule schedule = any_schedule();
  const bool reduces = *rc::gen::arbitrary<bool>();
  const bool tied = *rc::gen::arbitrary<bool>();
  StepForecast forecast(schedule, reduces, tied);
  for (int repetition = 0; repetition < 3; ++repetition) {
    const Costs costs = any_costs(schedule);
    const Measures truth = simulated(schedule, costs, reduces, tied);
    const StepForecast::Times times = forecast.time(costs);
    RC_ASSERT(times.makespan == truth.makespan);
    RC_ASSERT(times.step == truth.step_time);
    RC_ASSERT(simulated(schedule, costs, reduces, tied, true).makespan == truth.makespan);
    const Measures measures = forecast.measure(costs);
    RC_ASSERT(measures.bubble_ratio == truth.bubble_ratio);
    RC_ASSERT(measures.bubble_ratio_rank_span == truth.bubble_ratio_rank_span);
    for (size_t r = 0; r < truth.ranks.size(); ++r) {
      RC_ASSERT(measures.ranks[r].busy == truth.ranks[r].busy);
      RC_ASSERT(measures.ranks[r].peak_slots == truth.ranks[r].peak_slots);
      RC_ASSERT(measures.ranks[r].causes.fill == truth.ranks[r].causes.fill);
      RC_ASSERT(measures.ranks[r].causes.wait == truth.ranks[r].causes.wait);
      RC_ASSERT(measures.ranks[r].causes.transfer == truth.ranks[r].causes.transfer);
      RC_ASSERT(truth.ranks[r].causes.buffer == 0);
      RC_ASSERT(measures.ranks[r].causes.drain == truth.ranks[r].causes.drain);
      RC_ASSERT(measures.ranks[r].causes.reduction == truth.ranks[r].causes.reduction);
      RC_ASSERT(measures.ranks[r].idle == truth.ranks[r].idle);
    }
  }
}

TEST(StepForecast, CountsLatencyFromTheFirstForwardToTheLastGradient) {
  const Schedule schedule = schedule::generate("1f1b", {3, 1});
  Costs costs;
  costs.blocks = {{1, 2, 4}, {1, 2, 4}, {1, 2, 4}};
  costs.links = {{0.5, 0}};
  StepForecast forecast(schedule, false, false);
  forecast.time(costs);
  // F of three stages, B of three stages, four messages.
  EXPECT_EQ(forecast.micro_batch_latency(), 3 * 1 + 3 * 6 + 4 * 0.5);
}

// Messages that occupy links, on slow and on fast ones.
TEST(StepForecast, IsCloseWhereMessagesQueue) {
  double worst = 0;
  double sum = 0;
  int count = 0;
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv", "v-half", "hanayo", "dualpipev",
                           "dualpipe", "chimera"}) {
    for (const double occupancy : {0.05, 0.3, 1.0, 2.0}) {
      for (const double slowdown : {0.0, 0.1}) {
        const Schedule schedule =
            schedule::generate(name, {4, 16, name == std::string("interleaved") ? 2 : 0});
        Costs costs;
        for (int block = 0; block < schedule.blocks(); ++block) {
          const double each = (1.0 + 0.1 * (block % 3)) / schedule.chunks;
          costs.blocks.push_back({each, each, each});
        }
        costs.links = {{0.1, occupancy}};
        costs.traffic_slowdown = slowdown;
        StepForecast forecast(schedule, false, false);
        forecast.settle(costs);
        const double truth = simulated(schedule, costs, false, false).step_time;
        const double error = std::abs(forecast.time(costs).step / truth - 1);
        worst = std::max(worst, error);
        sum += error;
        ++count;
      }
    }
  }
  EXPECT_LT(worst, 0.1);
  EXPECT_LT(sum / count, 0.02);
}

// Some links slower than others: what comes over a fast one is seen after what was received before it.
TEST(StepForecast, IsCloseWhereLinksDiffer) {
  double worst = 0;
  double sum = 0;
  int count = 0;
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv", "v-half", "hanayo", "dualpipev",
                           "dualpipe", "chimera"}) {
    for (const int slow : {0, 1, 2}) {
      const Schedule schedule = schedule::generate(name, {4, 16, name == std::string("interleaved") ? 2 : 0});
      Costs costs;
      for (int block = 0; block < schedule.blocks(); ++block) {
        const double each = (1.0 + 0.1 * (block % 3)) / schedule.chunks;
        costs.blocks.push_back({each, each, each});
      }
      costs.links.assign(16, {0.1, 0});
      for (const int edge : {5 * slow + 1, 5 * slow + 4})
        costs.links[static_cast<size_t>(edge)].latency = 0.7;
      StepForecast forecast(schedule, false, false);
      forecast.settle(costs);
      const double truth = simulated(schedule, costs, false, false).step_time;
      const double error = std::abs(forecast.time(costs).step / truth - 1);
      worst = std::max(worst, error);
      sum += error;
      ++count;
    }
  }
  EXPECT_LT(worst, 0.01);
  EXPECT_LT(sum / count, 0.001);
}

TEST(StepForecast, RefusesWhatCannotHappen) {
  Schedule schedule = schedule::generate("1f1b", {2, 2});
  std::swap(schedule.actions[0][0], schedule.actions[0][2]);  // a backward before its forward
  EXPECT_THROW(StepForecast(schedule, false, false), schedule::ScheduleError);
}

}  // namespace
}  // namespace penstock::planner
