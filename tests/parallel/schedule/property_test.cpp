// Random schedules, sizes and costs.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "tests/parallel/schedule/lowered.h"

namespace penstock::schedule {
namespace {

Schedule any_schedule() {
  const ScheduleKind& kind = schedule_kinds()[*rc::gen::inRange<size_t>(0, schedule_kinds().size())];
  ScheduleOptions options;
  options.ranks = *rc::gen::inRange(1, 9);
  options.micro_batches = *rc::gen::inRange(1, 25);
  options.chunks = *rc::gen::inRange(kind.min_chunks, std::min(kind.max_chunks, 4) + 1);
  if (kind.name == std::string("1f1b")) options.warmup_slack = *rc::gen::inRange(0, 6);
  RC_PRE(kind.refusal(options).empty());
  return generate(kind.name, options);
}

Costs any_costs(const Schedule& schedule) {
  Costs costs;
  for (int block = 0; block < schedule.blocks(); ++block) {
    const auto cost = [] { return static_cast<double>(*rc::gen::inRange(0, 20)); };
    costs.blocks.push_back({cost(), cost(), cost()});
  }
  costs.links = {
      {static_cast<double>(*rc::gen::inRange(0, 10)), static_cast<double>(*rc::gen::inRange(0, 4))}};
  return costs;
}

// With all buffers and queues as they are: the same program for both sides of a comparison.
double makespan(const Program& program, const Costs& costs) {
  return measure(program, simulate(program, costs)).makespan;
}

RC_GTEST_PROP(Property, TheMakespanIsAtLeastTheBusiestRanksWork, ()) {
  const Schedule schedule = any_schedule();
  const Costs costs = any_costs(schedule);
  const Program program = lower(schedule, costs, {});
  RC_ASSERT(validate(program).empty());
  const Measures measures = measure(program, simulate(program, costs));
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    double work = 0;
    for (const Action& action : schedule.actions[static_cast<size_t>(rank)]) work += costs.of(action);
    RC_ASSERT(measures.ranks[static_cast<size_t>(rank)].busy == work);
    RC_ASSERT(measures.makespan >= work);
    RC_ASSERT(measures.ranks[static_cast<size_t>(rank)].idle >= 0);
  }
  RC_ASSERT(measures.bubble_ratio >= measures.bubble_ratio_rank_span - 1e-12);
}

// One micro-batch down and up the model, with its messages.
RC_GTEST_PROP(Property, TheMakespanIsAtLeastTheCriticalPath, ()) {
  const Schedule schedule = any_schedule();
  const Costs costs = any_costs(schedule);
  double path = 0;
  for (int block = 0; block < schedule.blocks(); ++block) {
    const StageCosts& at = costs.blocks[static_cast<size_t>(block)];
    path += at.forward + at.backward_input;
    const auto b = static_cast<size_t>(block);
    if (block > 0 && schedule.rank_of_stage[b] != schedule.rank_of_stage[b - 1]) {
      path += 2 * (costs.links[0].latency + costs.links[0].occupancy);
    }
  }
  // The clock runs from the first action: leading messages of the first stage do not exist.
  RC_ASSERT(makespan(lower(schedule, costs, {}), costs) >= path);
}

RC_GTEST_PROP(Property, TheMakespanGrowsWithEveryCost, ()) {
  const Schedule schedule = any_schedule();
  const Costs costs = any_costs(schedule);
  const Program program = lower(schedule, costs, {});
  Costs more = costs;
  StageCosts& block = more.blocks[*rc::gen::inRange<size_t>(0, more.blocks.size())];
  const double extra = *rc::gen::inRange(1, 10);
  switch (*rc::gen::inRange(0, 5)) {
    case 0:
      block.forward += extra;
      break;
    case 1:
      block.backward_input += extra;
      break;
    case 2:
      block.backward_weight += extra;
      break;
    case 3:
      more.links[0].latency += extra;
      break;
    default:
      more.links[0].occupancy += extra;
  }
  RC_ASSERT(makespan(program, more) >= makespan(program, costs));
}

RC_GTEST_PROP(Property, SlackNeverDeadlocksAndCostsOneActivationEach, ()) {
  const int P = *rc::gen::inRange(1, 9);
  const int M = *rc::gen::inRange(1, 25);
  const int slack = *rc::gen::inRange(0, 30);
  const Schedule schedule = generate("1f1b", {P, M, 0, slack});
  const Costs costs = any_costs(schedule);
  LoweringOptions options;
  options.receive_lead = *rc::gen::inRange(0, 4);
  RC_ASSERT(validate(lower(schedule, costs, options)).empty());
  for (int rank = 0; rank < P; ++rank) {
    RC_ASSERT(peak_slots(schedule, rank) == std::min(P - rank + (rank < P - 1 ? slack : 0), M));
  }
}

// However late a message is, a program made for other costs still runs, and no sooner than its slowed parts
// allow.
RC_GTEST_PROP(Property, SlowTrafficOnlySlows, ()) {
  const Schedule schedule = any_schedule();
  Costs costs = any_costs(schedule);
  const Program program = lower(schedule, costs, {});
  const double before = makespan(program, costs);
  costs.traffic_slowdown = *rc::gen::inRange(1, 8) / 8.0;
  RC_ASSERT(makespan(program, costs) >= before - 1e-9 * (1 + before));
}

}  // namespace
}  // namespace penstock::schedule
