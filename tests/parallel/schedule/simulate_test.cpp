#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/parallel/schedule/lowered.h"

namespace penstock::schedule {
namespace {

Span span_of(const Program& program, const Timeline& timeline, int rank, const std::string& name) {
  const auto r = static_cast<size_t>(rank);
  for (size_t i = 0; i < timeline.spans[r].size(); ++i) {
    if (to_string(program.ranks[r].instructions[i]) == name) return timeline.spans[r][i];
  }
  ADD_FAILURE() << name << " is not on rank " << rank;
  return {};
}

double total(const Idle& idle) {
  return idle.fill + idle.wait + idle.transfer + idle.buffer + idle.drain;
}

TEST(Simulator, CausesAddUpToTheIdleTime) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    const Schedule schedule = generate(kind.name, {4, 12});
    Costs costs = stage_costs(schedule, {10, 12, 7}, 3);
    costs.blocks.back().backward_weight = 19;
    const Measures measures = simulated(schedule, costs);
    for (const RankMeasures& rank : measures.ranks)
      EXPECT_DOUBLE_EQ(rank.idle, total(rank.causes)) << kind.name;
  }
}

TEST(Simulator, LatencyAndOccupancyOfALink) {
  const Schedule schedule = generate("gpipe", {2, 3});
  Costs costs = stage_costs(schedule, {1, 1, 1});
  // Four a message on the wire towards rank 1, where forwards take one: the wire is the bottleneck.
  costs.links = {{0, 0}, {2, 4}, {0, 1}, {0, 0}};
  LoweringOptions options;
  options.receive_lead = 4;
  const Program program = lower(schedule, costs, options);
  const Timeline timeline = simulate(program, costs);
  EXPECT_EQ(span_of(program, timeline, 0, "send 0F0 to rank 1").start, 1);
  EXPECT_EQ(span_of(program, timeline, 1, "1F0").start, 7);
  EXPECT_EQ(span_of(program, timeline, 1, "1F1").start, 11);  // the edge was free at 5; the latencies overlap
  EXPECT_EQ(span_of(program, timeline, 1, "1F2").start, 15);
  EXPECT_EQ(span_of(program, timeline, 0, "0B0").start, 19);  // B ends at 18, the way back takes 1
  const Measures measures = measure(program, timeline);
  EXPECT_EQ(measures.ranks[1].causes.fill, 7);
  EXPECT_EQ(measures.ranks[1].causes.transfer, 6);
  EXPECT_EQ(measures.ranks[1].causes.wait, 0);
}

TEST(Simulator, TrafficSlowsComputeWhileItLasts) {
  const Schedule schedule = generate("gpipe", {2, 2});
  Costs costs = stage_costs(schedule, {4, 4, 4});
  costs.links = {{0, 2}};
  costs.traffic_slowdown = 1;  // half the pace
  const Program program = lower(schedule, costs, {});
  const Timeline timeline = simulate(program, costs);
  EXPECT_EQ(span_of(program, timeline, 0, "0F0").end, 4);
  // The send of 0F0 lasts from 4 to 6: in these two units one unit of work is done, three are left.
  EXPECT_EQ(span_of(program, timeline, 0, "0F1").end, 9);
  EXPECT_EQ(span_of(program, timeline, 1, "1F0").start, 6);
  // Message 0F1 from 9 to 11 overlaps 1F0's last unit, 9 to 10, of which half is done: it ends at 11.
  EXPECT_EQ(span_of(program, timeline, 1, "1F0").end, 11);
}

TEST(Simulator, ReductionsAndTheOptimizerCloseTheStep) {
  const Schedule schedule = generate("1f1b", {2, 4});
  Costs costs = stage_costs(schedule, {1, 1, 1});
  costs.gradient_reduction = {5};
  costs.tied_sum = 2;
  costs.optimizer_step = 3;
  costs.parameter_gather = {4};
  LoweringOptions options;
  options.tied_embeddings = true;
  options.sharded_optimizer = true;
  const Program program = lower(schedule, costs, options);
  const Measures measures = measure(program, simulate(program, costs));
  EXPECT_EQ(measures.makespan, 15);
  EXPECT_EQ(measures.step_time, 15 + 5 + 2 + 3 + 4);
  for (const RankMeasures& rank : measures.ranks) EXPECT_EQ(rank.causes.reduction, 14);
}

TEST(Simulator, CopiesAreSummedEagerly) {
  const Schedule schedule = generate("chimera", {4, 4});
  Costs costs = stage_costs(schedule, {1, 1, 1});
  costs.gradient_reduction = {1};
  const Program program = lower(schedule, costs, {});
  const Timeline timeline = simulate(program, costs);
  // Blocks 0 of both copies end last; those in the middle are summed while others still compute.
  EXPECT_LT(span_of(program, timeline, 1, "reduce gradients of stage 6").end, 16);
}

TEST(Simulator, FusedPairsWaitForBothInputs) {
  const Schedule schedule = generate("dualpipe", {4, 8});
  LoweringOptions options;
  options.fuse_pairs = true;
  const Program program = lower(schedule, stage_costs(schedule, {1, 1, 1}), options);
  EXPECT_TRUE(validate(program).empty());
  const Timeline timeline = simulate(program, stage_costs(schedule, {1, 1, 1}));
  for (size_t rank = 0; rank < 4; ++rank) {
    const auto& list = program.ranks[rank].instructions;
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      if (list[i].kind != InstructionKind::compute || !list[i].action.paired) continue;
      ASSERT_EQ(list[i + 1].action.op, Op::backward);
      EXPECT_EQ(timeline.spans[rank][i].end, timeline.spans[rank][i + 1].start);
    }
  }
}

TEST(Simulator, MemoryOverTimePeaksAtTheFormula) {
  const Schedule schedule = generate("zb-h2", {4, 12});
  const Program program = lower(schedule, stage_costs(schedule, {1, 1, 1}), {});
  const Timeline timeline = simulate(program, stage_costs(schedule, {1, 1, 1}));
  for (int rank = 0; rank < 4; ++rank) {
    // From F to W a slot counts once: the W part begins where the F part ends.
    double peak = 0;
    const std::vector<MemoryPoint> points = memory_over_time(program, timeline, rank, {1, 1, 0.5});
    for (const MemoryPoint& point : points) peak = std::max(peak, point.held);
    double buffers = 0;
    for (const int count : program.ranks[static_cast<size_t>(rank)].buffers) buffers += 0.5 * count;
    EXPECT_EQ(points.back().held, buffers) << "memory is held after the step";
    EXPECT_GE(peak, 7 + buffers);
    EXPECT_LE(peak, 8 + buffers);  // during I both halves are held
  }
}

TEST(Simulator, AProgramOfAnotherCostIsRefused) {
  const Schedule schedule = generate("1f1b", {2, 2});
  const Program program = lower(schedule, stage_costs(schedule, {1, 1, 1}), {});
  for (const double bad : {-1.0, std::numeric_limits<double>::infinity(), std::nan(""), 1e13}) {
    EXPECT_THROW(simulate(program, stage_costs(schedule, {bad, 1, 1})), ScheduleError) << bad;
    EXPECT_THROW(simulate(program, stage_costs(schedule, {1, 1, 1}, bad)), ScheduleError) << bad;
  }
  Costs links = stage_costs(schedule, {1, 1, 1});
  links.links.resize(3);
  EXPECT_THROW(simulate(program, links), ScheduleError);
  Program cut = program;
  cut.ranks[1].instructions.erase(cut.ranks[1].instructions.begin());
  EXPECT_THROW(simulate(cut, stage_costs(schedule, {1, 1, 1})), ScheduleError);
}

TEST(Simulator, FreeStepsHaveNoBubble) {
  const Schedule schedule = generate("1f1b", {3, 5});
  const Measures measures = simulated(schedule, stage_costs(schedule, {0, 0, 0}));
  EXPECT_EQ(measures.makespan, 0);
  EXPECT_EQ(measures.bubble_ratio, 0);
  EXPECT_EQ(measures.bubble_ratio_rank_span, 0);
}

}  // namespace
}  // namespace penstock::schedule
