// Asleep, on the real clock: what ran and in which order, not how long it took, but for lower bounds, which
// no busy machine breaks.
#include <gtest/gtest.h>

#include "tests/trainer/replay/replayed.h"
#include "trainer/replay/step_summary.h"

namespace penstock::replay {
namespace {

TEST(Sleeping, ActionsTakeAtLeastTheirTimeAndWaitForTheirInputs) {
  schedule::ScheduleOptions options;
  options.ranks = 3;
  options.micro_batches = 4;
  const schedule::Schedule schedule = schedule::generate("1f1b", options);
  schedule::Costs costs = even_costs(schedule, {0.002, 0.001, 0.001});
  costs.links = {{0.001, 0.001}};
  costs.gradient_reduction = {0.001};
  costs.tied_sum = 0.001;
  costs.optimizer_step = 0.001;
  schedule::LoweringOptions lowering;
  lowering.tied_embeddings = true;
  const schedule::Program program = schedule::lower(schedule, costs, lowering);
  const runtime::ReplayTimes times(program, costs,
                                   {runtime::read_disturbance("step 1 evaluation pause 5ms")});
  const double simulated = measure(program, schedule::simulate(program, costs)).step_time;
  ReplayOptions replay;
  replay.sleeping = true;
  replay.steps = 2;
  replay.message_bytes = 1000;
  ReplayAccount account(program);
  std::vector<StepSummary> steps;
  run_replay(program, times, replay, [&](uint64_t step, std::span<const RankStep> ranks) {
    steps.push_back(account.add(step, ranks));
    for (const RankStep& rank : ranks) {
      for (const runtime::Stamp& stamp : rank.stamps) {
        if (stamp.instruction->kind != schedule::InstructionKind::compute) continue;
        EXPECT_GE(stamp.end - stamp.start, 0.002 - 1e-6) << to_string(*stamp.instruction);
        EXPECT_GE(stamp.start, stamp.enqueued);
      }
    }
  });
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_GE(steps[0].seconds, simulated - 1e-6);
  EXPECT_GE(steps[1].seconds, simulated + 0.005 - 1e-6);
  EXPECT_GT(steps[1].parts[accounting::Part::evaluation], 0.005 - 1e-6);
}

TEST(StepSummary, EveryMillisecondLandsOnItsCause) {
  schedule::ScheduleOptions options;
  options.ranks = 4;
  options.micro_batches = 6;
  const schedule::Schedule schedule = schedule::generate("1f1b", options);
  schedule::Costs costs = even_costs(schedule, {0.5, 0.25, 0.25});
  costs.links = {{0.125, 0}};
  costs.gradient_reduction = {0.5};
  const schedule::Program program = schedule::lower(schedule, costs, {});
  const runtime::ReplayTimes times(
      program, costs,
      {runtime::read_disturbance("evaluation pause 2s"), runtime::read_disturbance("rank 2 data +1s"),
       runtime::read_disturbance("rank 1 host +125ms")});
  run_replay(program, times, {}, [&](uint64_t step, std::span<const RankStep> ranks) {
    const StepSummary at = ReplayAccount(program).add(step, ranks);
    using accounting::Part;
    EXPECT_NEAR(at.parts.all(), at.seconds, 1e-9);
    EXPECT_DOUBLE_EQ(at.parts.busy(), 6);
    EXPECT_DOUBLE_EQ(at.parts[Part::evaluation], 2);
    // Twelve actions of rank 1, some of them while it would have waited.
    EXPECT_GT(at.parts[Part::host], 0.125);
    EXPECT_LE(at.parts[Part::host], 12 * 0.125 / 4 + 1e-9);
    EXPECT_NEAR(at.parts[Part::unexplained], 0, 1e-9);
    EXPECT_EQ(at.parts[Part::launch], 0);
    const std::string lines = stamp_lines(step, ranks);
    EXPECT_EQ(lines.substr(0, lines.find('\n')), "0,0,0,0F0,compute,2.000000000,2.000000000,2.500000000");
  });
}

}  // namespace
}  // namespace penstock::replay
