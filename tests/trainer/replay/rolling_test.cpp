// A schedule without a flush, replayed: the real executor's steps overlap, and take the time that they were
// said to.
#include "parallel/schedule/rolling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/measures.h"
#include "trainer/accounting/prediction.h"
#include "trainer/replay/step_summary.h"

namespace penstock::replay {
namespace {

using accounting::Part;
using schedule::RollingProgram;

struct Replayed {
  std::vector<StepSummary> steps;
  schedule::Measures simulated;
  accounting::Prediction predicted;
};

struct Case {
  int ranks = 8;
  int micro_batches = 16;
  double transfer = 0;
  double optimizer = 0;
};

Replayed replayed(const Case& asked, uint64_t count, const std::vector<std::string>& disturbed = {}) {
  schedule::ScheduleOptions options{asked.ranks, asked.micro_batches};
  schedule::LoweringOptions lowering;
  lowering.tied_embeddings = true;
  schedule::Costs costs;
  costs.blocks.assign(static_cast<size_t>(asked.ranks), {0.010, 0.010, 0.010});
  costs.links = {{0, asked.transfer}};
  costs.optimizer_step = asked.optimizer;
  const schedule::Schedule one = schedule::generate("2bw", options);
  lowering.receive_lead = sufficient_receive_lead(one, costs, lowering);
  const schedule::Program program = lower(one, costs, lowering);
  options.steps = RollingProgram::steps;
  const RollingProgram rolling = roll(schedule::generate("2bw", options), costs, lowering);
  std::vector<runtime::Disturbance> disturbances;
  for (const std::string& each : disturbed) disturbances.push_back(runtime::read_disturbance(each));
  const runtime::ReplayTimes times(program, costs, disturbances);
  ReplayOptions replay;
  replay.steps = count;
  replay.rolling = &rolling;
  Replayed made;
  ReplayAccount account(program, &rolling);
  run_replay(program, times, replay, [&](uint64_t step, std::span<const RankStep> ranks) {
    made.steps.push_back(account.add(step, ranks));
  });
  made.simulated = measure_steady_state(rolling.window, simulate(rolling.window, costs));
  made.predicted = accounting::predict(program, rolling, costs);
  return made;
}

// Eight ranks: what is idle, measured, is no bubble but the little that transfers cost.
TEST(RollingReplay, IdlesLessThanFivePercentOnEightRanks) {
  for (const int micro_batches : {8, 16, 20}) {
    for (const double transfer : {0.0, 0.0005}) {
      SCOPED_TRACE(testing::Message() << "M = " << micro_batches << ", transfer " << transfer);
      const Replayed made = replayed({8, micro_batches, transfer, 0.002}, 12);
      for (size_t step = 3; step < 11; ++step) {
        EXPECT_LT(made.steps[step].figures.idle_ratio, 0.05) << step;
        EXPECT_NEAR(made.steps[step].seconds, made.simulated.step_time, 1e-9) << step;
        EXPECT_NEAR(made.steps[step].parts[Part::unexplained], 0, 1e-9) << step;
      }
      // 1F1B has to fill and to drain in every step.
      const double flushed = 7.0 / (micro_batches + 7);
      EXPECT_GT(flushed, 0.2);
    }
  }
}

TEST(RollingReplay, AStepInTheMidstIsThePrediction) {
  for (const Case& asked : {Case{4, 4, 0, 0}, {4, 9, 0.003, 0.002}, {8, 16, 0.001, 0.004}, {1, 3, 0, 0.01}}) {
    SCOPED_TRACE(testing::Message() << "P = " << asked.ranks << ", M = " << asked.micro_batches);
    const Replayed made = replayed(asked, 10);
    const StepSummary& step = made.steps[6];
    EXPECT_NEAR(step.seconds, made.predicted.account.seconds(), 1e-9);
    EXPECT_NEAR(step.figures.idle_ratio, made.predicted.figures.idle_ratio, 1e-9);
    EXPECT_NEAR(step.figures.bubble_ratio, made.predicted.figures.bubble_ratio, 1e-9);
    const auto expect_predicted = [&](std::initializer_list<Part> parts) {
      double measured = 0;
      double predicted = 0;
      for (const Part part : parts) {
        measured += step.parts[part];
        for (const accounting::RankAccount& rank : made.predicted.account.ranks)
          predicted += rank.parts[part] / asked.ranks;
      }
      EXPECT_NEAR(measured, predicted, 1e-9) << accounting::name_of(*parts.begin());
    };
    for (const Part part :
         {Part::forward, Part::backward_input, Part::backward_weight, Part::optimizer, Part::unexplained})
      expect_predicted({part});
    // How they share that moves on from step to step for a while.
    expect_predicted({Part::wait_forward, Part::wait_backward, Part::transfer});
  }
}

// Every second of the run is in one of its steps.
TEST(RollingReplay, FillAndDrainComeOnce) {
  const Replayed made = replayed({4, 6, 0, 0}, 8);
  EXPECT_GT(made.steps.front().parts[Part::fill], 0);
  EXPECT_GT(made.steps.back().parts[Part::drain], 0);
  double whole = 0;
  for (const StepSummary& step : made.steps) whole += step.seconds;
  EXPECT_NEAR(whole, 8 * 6 * 0.030 + 3 * 0.030, 1e-9);
  for (size_t step = 1; step < 7; ++step) {
    EXPECT_NEAR(made.steps[step].figures.bubble_ratio, 0, 1e-9) << step;
    EXPECT_EQ(made.steps[step].parts[Part::fill], 0);
    EXPECT_EQ(made.steps[step].parts[Part::drain], 0);
  }
}

// A pause drains the pipeline, and only a pause.
TEST(RollingReplay, DrainsForPauses) {
  const Replayed made = replayed({4, 6, 0, 0}, 9, {"every 4 evaluation pause 50ms"});
  for (const StepSummary& step : made.steps) {
    const bool behind = step.parts[Part::evaluation] > 0;
    EXPECT_EQ(step.parts[Part::fill] > 0, behind || step.step == 0) << step.step;
    EXPECT_NEAR(step.parts[Part::evaluation], behind ? 0.050 : 0, 1e-9);
    EXPECT_NEAR(step.parts[Part::unexplained], 0, 1e-9);
  }
}

TEST(RollingReplay, ASlowRankIsWaitedFor) {
  const Replayed made = replayed({4, 8, 0, 0}, 10, {"step 3.. rank 2 slower 50%"});
  EXPECT_EQ(made.steps[7].root_rank, 2);
  EXPECT_EQ(made.steps[7].figures.slowest_rank, 2);
  EXPECT_NEAR(made.steps[7].seconds, 8 * 0.045, 1e-9);
}

}  // namespace
}  // namespace penstock::replay
