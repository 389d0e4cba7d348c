// Delays of messages, hidden or not: in virtual time, so that the answer is exact.
#include <algorithm>

#include <gtest/gtest.h>

#include "parallel/schedule/wiring.h"
#include "tests/trainer/replay/replayed.h"

namespace penstock::replay {
namespace {

using schedule::InstructionKind;
using schedule::Program;
using schedule::Span;
using schedule::Timeline;

struct Replayed {
  Program program;
  Timeline timeline;
  double bubble = 0;
  double simulated = 0;
};

Replayed replay_1f1b(int slack, double occupancy, double latency) {
  schedule::ScheduleOptions options;
  options.ranks = 4;
  options.micro_batches = 16;
  options.warmup_slack = slack;
  const schedule::Schedule schedule = schedule::generate("1f1b", options);
  schedule::Costs costs = even_costs(schedule, {2, 2, 2});
  costs.links = {{latency, occupancy}};
  schedule::LoweringOptions lowering;
  lowering.reduce_gradients = false;
  lowering.receive_lead = sufficient_receive_lead(schedule, costs, lowering);
  Replayed made;
  made.program = schedule::lower(schedule, costs, lowering);
  const runtime::ReplayTimes times(made.program, costs);
  made.timeline = replayed(made.program, times, {}).front();
  made.bubble = measure(made.program, made.timeline).bubble_ratio;
  made.simulated = measure(made.program, schedule::simulate(made.program, costs)).bubble_ratio;
  return made;
}

TEST(Overlap, SlackHidesDelaysAsTheSimulatorSays) {
  const double free = replay_1f1b(0, 0, 0).bubble;
  const Replayed none = replay_1f1b(0, 0.5, 0.5);
  const Replayed one = replay_1f1b(1, 0.5, 0.5);
  const Replayed two = replay_1f1b(2, 0.5, 0.5);
  for (const Replayed* each : {&none, &one, &two}) EXPECT_NEAR(each->bubble, each->simulated, 1e-12);
  // Without slack every micro-batch pays; with slack fill and drain alone.
  EXPECT_GT(none.bubble, free + 0.05);
  EXPECT_LT(one.bubble, none.bubble - 0.05);
  EXPECT_LE(two.bubble, one.bubble + 1e-12);
}

TEST(Overlap, SendsAndReceivesRunAtOnceAndBesideTheCompute) {
  const Replayed run = replay_1f1b(2, 1.5, 0.5);
  std::vector<schedule::Violation> found;
  const schedule::Wiring wiring = wire(run.program, found);
  ASSERT_TRUE(found.empty());
  std::vector<Span> all;
  for (const auto& spans : run.timeline.spans) all.insert(all.end(), spans.begin(), spans.end());
  constexpr int rank = 1;
  const auto& list = run.program.ranks[rank].instructions;
  // Seconds during which both kinds of the rank's instructions are under way: messages from when both ends
  // are posted.
  const auto together = [&](InstructionKind one, InstructionKind other) {
    const auto span = [&](size_t i) {
      const auto id = static_cast<size_t>(wiring.first[rank]) + i;
      Span made = all[id];
      const int partner = wiring.partner[id];
      if (partner >= 0) made.start = std::max(made.start, all[static_cast<size_t>(partner)].start);
      return made;
    };
    double seconds = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      for (size_t j = 0; j < list.size() && list[i].kind == one; ++j) {
        if (list[j].kind != other) continue;
        const Span a = span(i);
        const Span b = span(j);
        seconds += std::max(0.0, std::min(a.end, b.end) - std::max(a.start, b.start));
      }
    }
    return seconds;
  };
  EXPECT_GT(together(InstructionKind::send, InstructionKind::receive), 1);
  // 32 messages leave, and 32 arrive, most of them while the rank computes.
  EXPECT_GT(together(InstructionKind::send, InstructionKind::compute), 10);
  EXPECT_GT(together(InstructionKind::receive, InstructionKind::compute), 10);
}

// Reductions run on a stream of their own: what computes beside them is not delayed.
TEST(Overlap, GradientReductionDelaysNoCompute) {
  schedule::ScheduleOptions options;
  options.ranks = 4;
  options.micro_batches = 8;
  options.chunks = 2;
  const schedule::Schedule schedule = schedule::generate("interleaved", options);
  schedule::Costs costs = even_costs(schedule, {1, 1, 1});
  costs.gradient_reduction = {3};
  schedule::LoweringOptions with;
  schedule::LoweringOptions without;
  without.reduce_gradients = false;
  std::vector<std::vector<Span>> computes[2];
  double reduced_while_computing = 0;
  for (const bool reduces : {true, false}) {
    const Program program = schedule::lower(schedule, costs, reduces ? with : without);
    const runtime::ReplayTimes times(program, costs);
    const Timeline timeline = replayed(program, times, {}).front();
    for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
      auto& spans = computes[reduces ? 1 : 0].emplace_back();
      const auto& list = program.ranks[rank].instructions;
      for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].kind == InstructionKind::compute) spans.push_back(timeline.spans[rank][i]);
      }
      for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].kind != InstructionKind::reduce_gradients) continue;
        const Span& at = timeline.spans[rank][i];
        reduced_while_computing += std::max(0.0, std::min(at.end, spans.back().end) - at.start);
      }
    }
  }
  EXPECT_GT(reduced_while_computing, 4);
  for (size_t rank = 0; rank < computes[0].size(); ++rank) {
    ASSERT_EQ(computes[0][rank].size(), computes[1][rank].size());
    for (size_t i = 0; i < computes[0][rank].size(); ++i) {
      EXPECT_EQ(computes[0][rank][i].start, computes[1][rank][i].start);
      EXPECT_EQ(computes[0][rank][i].end, computes[1][rank][i].end);
    }
  }
}

}  // namespace
}  // namespace penstock::replay
