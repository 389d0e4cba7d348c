// Simulated time lines of random schedules, sizes and costs: what accounting finds in them is what the
// simulator's own measures say, part by part.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/measures.h"
#include "trainer/accounting/accountant.h"

namespace penstock::accounting {
namespace {

using schedule::Costs;
using schedule::Measures;
using schedule::Program;
using schedule::RankMeasures;
using schedule::Schedule;
using schedule::ScheduleKind;
using schedule::ScheduleOptions;
using schedule::Timeline;

Schedule any_schedule() {
  const auto kinds = schedule::schedule_kinds();
  const ScheduleKind& kind = kinds[*rc::gen::inRange<size_t>(0, kinds.size())];
  ScheduleOptions options;
  options.ranks = *rc::gen::inRange(1, 9);
  options.micro_batches = *rc::gen::inRange(1, 25);
  options.chunks = *rc::gen::inRange(kind.min_chunks, std::min(kind.max_chunks, 4) + 1);
  RC_PRE(kind.refusal(options).empty());
  return generate(kind.name, options);
}

Costs any_costs(const Schedule& schedule) {
  const auto cost = [](int to) { return static_cast<double>(*rc::gen::inRange(0, to)); };
  Costs costs;
  for (int block = 0; block < schedule.blocks(); ++block)
    costs.blocks.push_back({cost(20), cost(20), cost(20)});
  costs.links = {{cost(10), cost(4)}};
  costs.optimizer_step = cost(20);
  costs.gradient_reduction = {cost(20)};
  costs.tied_sum = cost(20);
  return costs;
}

std::vector<RankTimes> times_of_all(const Timeline& timeline) {
  std::vector<RankTimes> times;
  for (size_t rank = 0; rank < timeline.spans.size(); ++rank) times.push_back(times_of(timeline, rank));
  return times;
}

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-9 * (1 + std::abs(a) + std::abs(b));
}

double sum(const std::vector<Culprit>& culprits) {
  double seconds = 0;
  for (const Culprit& culprit : culprits) seconds += culprit.seconds;
  return seconds;
}

void expect_the_measures(const Program& program, const Timeline& timeline) {
  const Measures measures = measure(program, timeline);
  Accountant accountant(program);
  const StepAccount& account = accountant.account(times_of_all(timeline), std::nullopt);
  RC_ASSERT(near(account.seconds(), measures.step_time));
  RC_ASSERT(near(account.last_action - account.first_action, measures.makespan));
  for (size_t r = 0; r < account.ranks.size(); ++r) {
    const PartSeconds& parts = account.ranks[r].parts;
    const RankMeasures& rank = measures.ranks[r];
    RC_ASSERT(near(parts.all(), account.seconds()));
    RC_ASSERT(near(parts[Part::unexplained], 0));
    RC_ASSERT(near(parts.busy(), rank.busy));
    RC_ASSERT(near(parts[Part::drain], rank.causes.drain));
    RC_ASSERT(near(parts[Part::reduction] + parts[Part::optimizer], rank.causes.reduction));
    RC_ASSERT(near(parts[Part::wait_forward] + parts[Part::wait_backward], rank.causes.wait));
    RC_ASSERT(near(parts[Part::transfer], rank.causes.transfer));
    RC_ASSERT(parts[Part::data] == 0 && parts[Part::host] == 0 && parts.pauses() == 0);
    // A fused pair of F and B waits for the inputs of both: for the second's, no message of its own speaks.
    RC_ASSERT(near(parts[Part::fill] + parts[Part::buffer] + parts[Part::launch],
                   rank.causes.fill + rank.causes.buffer));
    if (!program.options.fuse_pairs) RC_ASSERT(near(parts[Part::launch], 0));
    const double waits = parts[Part::wait_forward] + parts[Part::wait_backward];
    RC_ASSERT(near(sum(account.ranks[r].peers), waits));
    RC_ASSERT(near(sum(account.ranks[r].roots), waits));
    RC_ASSERT(near(sum(account.ranks[r].links), parts[Part::transfer] + parts[Part::buffer]));
    for (const Culprit& culprit : account.ranks[r].roots) {
      RC_ASSERT(culprit.to >= 0 || culprit.rank != static_cast<int>(r));  // nobody waits for itself
    }
  }
  const StepFigures figures = figures_of(account, accountant.stages_by_rank());
  if (program.options.fuse_pairs) return;
  RC_ASSERT(near(figures.bubble_ratio * measures.step_time, measures.bubble_ratio * measures.makespan));
  RC_ASSERT(near(figures.bubble_ratio_rank_span, measures.bubble_ratio_rank_span));
}

RC_GTEST_PROP(Accounting, OfASimulatedStepIsItsMeasures, ()) {
  const Schedule schedule = any_schedule();
  const Costs costs = any_costs(schedule);
  schedule::LoweringOptions options;
  options.fuse_pairs = *rc::gen::arbitrary<bool>();
  options.tied_embeddings = *rc::gen::arbitrary<bool>();
  options.receive_lead = *rc::gen::inRange(0, 4);
  const Program program = lower(schedule, costs, options);
  expect_the_measures(program, simulate(program, costs));
}

// A program that was made for other costs waits in other places.
RC_GTEST_PROP(Accounting, OfASlowedStepIsItsMeasures, ()) {
  const Schedule schedule = any_schedule();
  const Program program = lower(schedule, any_costs(schedule), {});
  Costs costs = any_costs(schedule);
  costs.traffic_slowdown = *rc::gen::inRange(0, 8) / 8.0;
  expect_the_measures(program, simulate(program, costs));
}

// Whatever the stamps are, the parts add up; what contradicts itself is shown.
RC_GTEST_PROP(Accounting, PartsOfDisturbedStampsAddUp, ()) {
  const Schedule schedule = any_schedule();
  const Costs costs = any_costs(schedule);
  const Program program = lower(schedule, costs, {});
  std::vector<RankTimes> times = times_of_all(simulate(program, costs));
  for (RankTimes& rank : times) {
    const double off = *rc::gen::inRange(-5, 6);  // clocks
    for (InstructionTimes& at : rank.instructions) {
      at.start += off;
      at.end += off;
      at.enqueued = at.start - *rc::gen::inRange(-3, 4);
    }
    rank.host[0] = {Part::data, -3.0, static_cast<double>(*rc::gen::inRange(-3, 10))};
    rank.offered = rank.instructions.back().end - 3;
    rank.agreed = rank.instructions.back().end - 1;
  }
  Accountant accountant(program);
  const StepAccount& account = accountant.account(times, -7.0);
  for (const RankAccount& rank : account.ranks) {
    RC_ASSERT(near(rank.parts.all(), account.seconds()));
    RC_ASSERT(near(rank.parts[Part::unexplained], 0));
    for (size_t part = 0; part + 1 < part_count; ++part) RC_ASSERT(rank.parts[static_cast<Part>(part)] >= 0);
  }
}

}  // namespace
}  // namespace penstock::accounting
