// In virtual time a replay is what the simulator predicts, though nothing of the simulator runs: the program
// is executed, on streams, with messages.
#include <cmath>
#include <limits>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "tests/trainer/replay/replayed.h"

namespace penstock::replay {
namespace {

using schedule::Costs;
using schedule::InstructionKind;
using schedule::LoweringOptions;
using schedule::Program;
using schedule::Schedule;
using schedule::ScheduleKind;
using schedule::ScheduleOptions;
using schedule::Span;
using schedule::Timeline;

bool close(double a, double b) {
  return std::abs(a - b) <= 1e-11 * (1 + std::abs(a));
}

/// "" or the first instruction whose times differ. Messages count by their ends, as they are posted before
/// they can start. Ranks agree ahead of the optimizer, of which the simulator knows nothing.
std::string difference(const Program& program, const Timeline& replay, const Timeline& simulated) {
  double optimizer_replay = 0;
  double optimizer_simulated = 0;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const auto& list = program.ranks[rank].instructions;
    for (size_t i = 0; i < list.size(); ++i) {
      const Span& a = replay.spans[rank][i];
      const Span& b = simulated.spans[rank][i];
      if (list[i].kind == InstructionKind::optimizer_step) {
        optimizer_replay = std::max(optimizer_replay, a.end);
        optimizer_simulated = std::max(optimizer_simulated, b.end);
        continue;
      }
      // A sender goes on when the link is free; what the simulator shows of both ends is the arrival.
      const bool send = list[i].kind == InstructionKind::send;
      const bool starts = list[i].kind == InstructionKind::compute;
      if ((send ? a.end <= b.end + 1e-9 : close(a.end, b.end)) && (!starts || close(a.start, b.start)))
        continue;
      return fmt::format("rank {}, {}: replayed {} to {}, simulated {} to {}", rank, to_string(list[i]),
                         a.start, a.end, b.start, b.end);
    }
  }
  if (close(optimizer_replay, optimizer_simulated)) return "";
  return fmt::format("the step ends at {}, simulated {}", optimizer_replay, optimizer_simulated);
}

/// Costs without any regularity.
Costs any_costs(const Schedule& schedule, uint64_t seed) {
  Costs costs;
  uint64_t state = seed;
  const auto cost = [&](double scale) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return scale * static_cast<double>(state >> 40U) / static_cast<double>(1U << 24U);
  };
  for (int block = 0; block < schedule.blocks(); ++block)
    costs.blocks.push_back({cost(1), cost(1.5), cost(1)});
  costs.links.clear();
  for (int edge = 0; edge < schedule.ranks * schedule.ranks; ++edge)
    costs.links.push_back({cost(0.4), cost(0.2)});
  costs.gradient_reduction = {cost(2)};
  costs.tied_sum = cost(1);
  costs.optimizer_step = cost(1);
  return costs;
}

using Case = std::tuple<const ScheduleKind*, int, int>;

std::vector<Case> synchronous_cases() {
  std::vector<Case> cases;
  for (const ScheduleKind& kind : schedule::schedule_kinds()) {
    if (kind.versions > 1) continue;
    for (const int ranks : {1, 2, 4, 8}) {
      if (kind.copies > 1 && ranks == 1) continue;
      for (const int micro_batches : {2 * ranks, 2 * ranks + (kind.copies > 1 ? 2 : 3)})
        cases.emplace_back(&kind, ranks, micro_batches);
    }
  }
  return cases;
}

class ReplayOf : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Schedules, ReplayOf, testing::ValuesIn(synchronous_cases()), [](const auto& each) {
  std::string name = std::get<0>(each.param)->name;
  std::erase(name, '-');
  return fmt::format("{}_P{}_M{}", name, std::get<1>(each.param), std::get<2>(each.param));
});

TEST_P(ReplayOf, EqualsTheSimulator) {
  const auto& [kind, ranks, micro_batches] = GetParam();
  ScheduleOptions options;
  options.ranks = ranks;
  options.micro_batches = micro_batches;
  options.chunks = kind->min_chunks == kind->max_chunks ? kind->min_chunks : 2;
  if (!kind->refusal(options).empty()) GTEST_FAIL() << kind->refusal(options);
  const Schedule schedule = schedule::generate(kind->name, options);
  const Costs costs = any_costs(schedule, static_cast<uint64_t>(ranks * 1000 + micro_batches));
  LoweringOptions lowering;
  lowering.tied_embeddings = true;
  lowering.reduce_every = micro_batches % 2 == 1 ? 2 : 0;
  const Program program = schedule::lower(schedule, costs, lowering);
  const Timeline simulated = schedule::simulate(program, costs);
  const runtime::ReplayTimes times(program, costs);
  ReplayOptions replay;
  replay.steps = 2;
  const std::vector<Timeline> steps = replayed(program, times, replay);
  ASSERT_EQ(steps.size(), 2U);
  for (const Timeline& step : steps) EXPECT_EQ(difference(program, step, simulated), "");
}

RC_GTEST_PROP(Replay, EqualsTheSimulatorForAnySizesCostsAndLeads, ()) {
  const std::vector<Case> cases = synchronous_cases();
  const ScheduleKind& kind = *std::get<0>(cases[*rc::gen::inRange<size_t>(0, cases.size())]);
  ScheduleOptions options;
  options.ranks = *rc::gen::inRange(1, 9);
  options.micro_batches = *rc::gen::inRange(1, 20);
  options.chunks = *rc::gen::inRange(kind.min_chunks, std::min(kind.max_chunks, 3) + 1);
  if (kind.name == std::string("1f1b")) options.warmup_slack = *rc::gen::inRange(0, 4);
  RC_PRE(kind.refusal(options).empty());
  const Schedule schedule = schedule::generate(kind.name, options);
  const Costs costs = any_costs(schedule, *rc::gen::arbitrary<uint64_t>());
  LoweringOptions lowering;
  lowering.tied_embeddings = *rc::gen::arbitrary<bool>();
  lowering.reduce_gradients = *rc::gen::arbitrary<bool>();
  lowering.receive_lead = *rc::gen::inRange(0, 4);
  const Program program = schedule::lower(schedule, costs, lowering);
  const runtime::ReplayTimes times(program, costs);
  const Timeline timeline = replayed(program, times, {}).front();
  RC_ASSERT(difference(program, timeline, schedule::simulate(program, costs)) == "");
}

TEST(Replay, TimesDoNotDependOnThreads) {
  ScheduleOptions options;
  options.ranks = 3;
  options.micro_batches = 4;
  const Schedule schedule = schedule::generate("zbv", options);
  const Costs costs = any_costs(schedule, 5);
  const Program program = schedule::lower(schedule, costs, {});
  const runtime::ReplayTimes times(program, costs, {runtime::read_disturbance("step 1 link 1->2 +300ms")},
                                   {0.1, 0.1, 0.8, 3});
  ReplayOptions replay;
  replay.steps = 2;
  const std::vector<Timeline> inline_steps = replayed(program, times, replay);
  replay.mode = StreamMode::queued;  // a worker thread a stream
  for (int repetition = 0; repetition < 2; ++repetition) {
    const std::vector<Timeline> steps = replayed(program, times, replay);
    for (size_t step = 0; step < steps.size(); ++step) {
      for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
        for (size_t i = 0; i < steps[step].spans[rank].size(); ++i) {
          EXPECT_EQ(steps[step].spans[rank][i].start, inline_steps[step].spans[rank][i].start);
          EXPECT_EQ(steps[step].spans[rank][i].end, inline_steps[step].spans[rank][i].end);
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::replay
