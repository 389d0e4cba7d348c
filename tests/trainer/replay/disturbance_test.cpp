#include "parallel/runtime/disturbance.h"

#include <cmath>

#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "tests/trainer/replay/replayed.h"

namespace penstock::replay {
namespace {

using runtime::Disturbance;
using runtime::DisturbanceError;
using runtime::read_disturbance;
using runtime::ReplayTimes;
using schedule::Op;
using schedule::Program;
using Kind = Disturbance::Kind;

TEST(Disturbance, IsReadAndWritten) {
  for (const char* text :
       {"step 200.. rank 5 slower 20%", "link 3->4 +5ms", "step 300 evaluation pause 400ms",
        "step 100..900 every 100 checkpoint pause 2000ms", "rank 0 host +0.25ms", "step 7 rank 2 data +100ms",
        "every 2 stage 3 faster 12.5%"}) {
    EXPECT_EQ(to_string(read_disturbance(text)), text);
  }
  const Disturbance rank = read_disturbance("  step 200.. rank 5\tslower 20% ");
  EXPECT_EQ(rank.kind, Kind::rank);
  EXPECT_EQ(rank.from, 5);
  EXPECT_DOUBLE_EQ(rank.factor, 1.2);
  EXPECT_FALSE(rank.applies(199));
  EXPECT_TRUE(rank.applies(200));
  const Disturbance pause = read_disturbance("step 100..900 every 100 checkpoint pause 2s");
  EXPECT_EQ(pause.seconds, 2);
  EXPECT_TRUE(pause.applies(900));
  EXPECT_FALSE(pause.applies(950));
  EXPECT_FALSE(pause.applies(1000));
  EXPECT_DOUBLE_EQ(read_disturbance("link 0->1 400us").seconds, 4e-4);
}

TEST(Disturbance, ErrorsNameThePlace) {
  const auto message = [](const char* text) -> std::string {
    try {
      return "read as " + to_string(read_disturbance(text));
    } catch (const DisturbanceError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message("rank 5 slowr 20%"),
            "disturbance \"rank 5 slowr 20%\", column 8: \"slowr\" where slower, faster, host or data is "
            "expected; for example: step 200.. rank 5 slower 20%");
  for (const auto& [text, expected] : std::vector<std::pair<const char*, const char*>>{
           {"", "column 1: the end where step, every, rank, stage, link, evaluation or checkpoint"},
           {"step x rank 1 slower 5%", "column 6: \"x\" where a step"},
           {"step 9..3 rank 1 slower 5%", "where a last step that is not before the first"},
           {"every 0 rank 1 slower 5%", "where 1 or more steps apart"},
           {"rank -1 slower 5%", "\"-1\" where a rank"},
           {"rank 1 slower 5", "\"5\" where a share (20%)"},
           {"rank 1 faster 100%", "where a share above 0% and below 100%"},
           // What can have no effect, and what is no machine's.
           {"link 1->1 +5ms", "column 6: \"1->1\" where a link between two ranks"},
           {"rank 1 slower 0%", "where a share (20%) above 0% and up to 1000000%"},
           {"rank 1 faster 0%", "where a share above 0% and below 100%"},
           {"rank 1 slower nan%", "where a share (20%)"},
           {"rank 1 slower 1e300%", "column 15: \"1e300%\" where a share (20%)"},
           {"stage 1 slower 1000001%", "where a share (20%)"},
           {"link 3->4 +0ms", "above 0 and up to 1000000s"},
           {"evaluation pause 1e300s", "where a time"},
           {"rank 1 data +1000001s", "where a time"},
           {"link 3-4 +5ms", "where a link (3->4)"},
           {"link 3->4 +5", "where a time (5ms, 400us, 2s)"},
           {"link 3->4 +-5ms", "where a time"},
           {"link 3->4 +1e999s", "where a time"},
           {"evaluation 400ms", "\"400ms\" where pause"},
           {"rank 1 slower 5% now", "column 18: \"now\" where the end"}}) {
    EXPECT_NE(message(text).find(expected), std::string::npos) << message(text);
  }
}

std::string misfit(const std::string& text, const Program& program) {
  try {
    runtime::require_fitting({read_disturbance(text)}, program);
  } catch (const DisturbanceError& error) {
    return error.what();
  }
  return "";
}

std::string beyond(const std::string& text, uint64_t first, uint64_t steps) {
  try {
    runtime::require_within({read_disturbance(text)}, first, steps);
  } catch (const DisturbanceError& error) {
    return error.what();
  }
  return "";
}

Program pipeline(int ranks, int micro_batches) {
  schedule::ScheduleOptions options;
  options.ranks = ranks;
  options.micro_batches = micro_batches;
  const schedule::Schedule schedule = schedule::generate("1f1b", options);
  schedule::LoweringOptions lowering;
  lowering.reduce_gradients = false;
  return schedule::lower(schedule, even_costs(schedule, {1, 1, 1}), lowering);
}

TEST(Disturbance, WhatIsNotThereIsRefused) {
  const Program program = pipeline(4, 4);
  for (const char* text :
       {"rank 3 slower 1%", "stage 3 faster 1%", "link 0->1 +1ms", "link 3->2 +1ms", "evaluation pause 1ms"})
    EXPECT_EQ(misfit(text, program), "") << text;
  EXPECT_EQ(misfit("rank 4 host +1ms", program),
            "disturbance \"rank 4 host +1ms\": there is no rank 4; the replay has ranks 0 to 3");
  EXPECT_NE(misfit("stage 4 slower 1%", program).find("stages 0 to 3"), std::string::npos);
  EXPECT_NE(misfit("link 1->7 +1ms", program).find("there is no rank 7"), std::string::npos);
  EXPECT_EQ(misfit("link 0->3 +1ms", program),
            "disturbance \"link 0->3 +1ms\": no message goes from rank 0 to rank 3; links of these ranks: "
            "0->1, 2->3");
}

// Compared with what applies(), step by step.
TEST(Disturbance, StepsThatAreNotReplayedAreRefused) {
  for (const char* steps : {"", "step 0", "step 3", "step 3..", "step 2..5", "every 4", "step 1.. every 3",
                            "step 5..9 every 5", "step 40", "step 7..9 every 3"}) {
    const std::string text = std::string(steps) + " rank 0 slower 1%";
    const Disturbance each = read_disturbance(text);
    for (uint64_t first = 0; first < 12; ++first) {
      for (uint64_t count = 1; count < 6; ++count) {
        bool any = false;
        for (uint64_t step = first; step < first + count; ++step) any = any || each.applies(step);
        EXPECT_EQ(beyond(text, first, count).empty(), any) << text << " in " << count << " from " << first;
      }
    }
  }
  EXPECT_EQ(beyond("step 40 rank 0 slower 1%", 2, 10),
            "disturbance \"step 40 rank 0 slower 1%\": it applies to none of the steps 2 to 11 that are "
            "replayed; raise --steps, or name one of these");
}

std::vector<double> step_seconds(const Program& program, const ReplayTimes& times, uint64_t steps,
                                 uint64_t first = 0) {
  ReplayOptions options;
  options.steps = steps;
  options.first_step = first;
  std::vector<double> seconds;
  run_replay(program, times, options, [&](uint64_t, std::span<const RankStep> ranks) {
    seconds.push_back(ranks.front().times.end - ranks.front().times.begin);
  });
  return seconds;
}

TEST(Disturbance, MovesTheStepsThatItNames) {
  const Program program = pipeline(4, 6);
  const auto with = [&](const char* text) {
    const ReplayTimes times(program, even_costs(program.schedule, {1, 1, 1}), {read_disturbance(text)});
    return step_seconds(program, times, 4);
  };
  using Seconds = std::vector<double>;
  // (M + P − 1) (F + B) = 27 s.
  EXPECT_EQ(with("step 9 rank 0 slower 10%"), (Seconds{27, 27, 27, 27}));
  // Every micro-batch passes the slow rank, whose F + B is 6 s.
  EXPECT_EQ(with("step 2.. rank 3 slower 100%"), (Seconds{27, 27, 45, 45}));
  EXPECT_EQ(with("step 1 stage 3 slower 100%"), (Seconds{27, 45, 27, 27}));
  EXPECT_EQ(with("every 2 evaluation pause 5s"), (Seconds{32, 27, 32, 27}));
  EXPECT_EQ(with("step 3 checkpoint pause 1500ms"), (Seconds{27, 27, 27, 28.5}));
  EXPECT_EQ(with("step 1 rank 0 data +4s"), (Seconds{27, 31, 27, 27}));
  // A delay of every micro-batch on one link, down only: the fill alone, as warm-up leaves no slack.
  EXPECT_GT(with("step 1 link 1->2 +500ms")[1], 27);
  EXPECT_EQ(with("step 1 link 1->2 +500ms")[2], 27);
  // Twice M actions of the last rank, each half a second late, on the critical path.
  EXPECT_EQ(with("step 2 rank 3 host +500ms"), (Seconds{27, 27, 33, 27}));
}

// A script says what is wrong; the simulator, fed with the same costs, does not know it.
TEST(Disturbance, ASlowExecutorIsNoticedByTheReplayAlone) {
  const Program program = pipeline(4, 6);
  const schedule::Costs costs = even_costs(program.schedule, {1, 1, 1});
  const double simulated = measure(program, schedule::simulate(program, costs)).step_time;
  const ReplayTimes slow(program, costs, {read_disturbance("rank 3 host +250ms")});
  EXPECT_EQ(simulated, 27);
  EXPECT_EQ(step_seconds(program, slow, 1).front(), 27 + 6 * 2 * 0.25);
  // Where the delay lies is in the stamps: between the end of one action and the start of the next.
  ReplayOptions options;
  run_replay(program, slow, options, [&](uint64_t, std::span<const RankStep> ranks) {
    const schedule::Measures found = measure(program, timeline_of(ranks));
    for (const schedule::RankMeasures& rank : found.ranks) EXPECT_EQ(rank.busy, 18);
  });
}

TEST(Disturbance, NamesOfRanksAndStagesAreChecked) {
  const Program program = pipeline(2, 2);
  for (const char* text : {"rank 2 slower 1%", "stage 2 slower 1%", "link 0->2 +1ms", "rank 9 host +1ms"}) {
    EXPECT_THROW(ReplayTimes(program, even_costs(program.schedule, {1, 1, 1}), {read_disturbance(text)}),
                 DisturbanceError)
        << text;
  }
}

TEST(Noise, IsAFunctionOfSeedStepRankAndActionAlone) {
  const Program program = pipeline(3, 5);
  const schedule::Costs costs = even_costs(program.schedule, {0.010, 0.012, 0.011});
  const ReplayTimes times(program, costs, {}, {0.05, 0.1, 0.9, 7});
  const std::vector<double> all = step_seconds(program, times, 6);
  EXPECT_EQ(step_seconds(program, times, 6), all);
  const std::vector<double> later = step_seconds(program, times, 2, 4);
  // Clocks start at 0, so that sums differ in their last bits.
  EXPECT_NEAR(later[0], all[4], 1e-12);
  EXPECT_NEAR(later[1], all[5], 1e-12);
  const ReplayTimes other(program, costs, {}, {0.05, 0.1, 0.9, 8});
  EXPECT_NE(step_seconds(program, other, 1).front(), all.front());
}

TEST(Noise, HasItsSpreadAndItsCorrelation) {
  const Program program = pipeline(1, 1);
  const double sigma = 0.1;
  const ReplayTimes times(program, even_costs(program.schedule, {1, 1, 1}), {}, {0.2, sigma, 0.8, 3});
  constexpr int steps = 20000;
  double sum = 0;
  double squares = 0;
  double products = 0;
  double actions = 0;
  double action_squares = 0;
  double previous = 0;
  for (int step = 0; step < steps; ++step) {
    const double factor = times.rank_factor(static_cast<uint64_t>(step), 0);
    const double normal = std::log(factor) / sigma + sigma / 2;
    sum += factor;
    squares += normal * normal;
    products += normal * previous;
    previous = normal;
    const double action = times.action(static_cast<uint64_t>(step), 0, Op::forward, 0);
    actions += action;
    action_squares += (action - 1) * (action - 1);
  }
  EXPECT_NEAR(sum / steps, 1, 0.01);
  EXPECT_NEAR(squares / steps, 1, 0.1);
  EXPECT_NEAR(products / steps, 0.8, 0.1);
  EXPECT_NEAR(actions / steps, 1, 0.01);
  EXPECT_NEAR(std::sqrt(action_squares / steps), 0.2, 0.01);
}

TEST(Noise, IsRefusedOutOfRange) {
  const Program program = pipeline(1, 1);
  const schedule::Costs costs = even_costs(program.schedule, {1, 1, 1});
  EXPECT_THROW(ReplayTimes(program, costs, {}, {-0.1, 0, 0, 1}), UsageError);
  EXPECT_THROW(ReplayTimes(program, costs, {}, {0, 3, 0, 1}), UsageError);
  EXPECT_THROW(ReplayTimes(program, costs, {}, {0, 0.1, 1, 1}), UsageError);
}

}  // namespace
}  // namespace penstock::replay
