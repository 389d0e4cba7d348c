// Is a pipeline's step what the simulator says? Two ranks, a core each, actions of at least 20 ms of real
// matrix products; the simulator is fed with the medians of the same run. And are delays of messages hidden
// as it says? Prints measured beside simulated; nothing else should run on the machine.
//   bench_bubbles              ranks are threads; steps, then overlap
//   mpirun -n 2 bench_bubbles  ranks are processes; steps
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/measures.h"
#include "tests/bench/launched_world.h"
#include "tests/bench/measured_steps.h"
#include "tests/bench/product_stage.h"
#include "trainer/replay/replay_run.h"

namespace penstock::bench {
namespace {

constexpr double action_seconds = 0.020;
constexpr int steps = 7;
constexpr int64_t message_bytes = int64_t{512} << 10U;

/// As many products an action as take the time, the same on all ranks.
int products(transport::World* world) {
  double seconds = ProductStage::product_seconds();
  if (world != nullptr) world->all_reduce({&seconds, 1}, transport::Reduction::minimum);
  return std::max(1, static_cast<int>(1.1 * action_seconds / seconds) + 1);
}

struct Case {
  const char* schedule;
  int ranks;
  int micro_batches;
  int slack = 0;
  double link_seconds = 0;  ///< that each message occupies its link
  double sleep = 0;         ///< seconds of an action asleep; 0: products
  int chunks = 0;           ///< 0: the schedule's own
  double last = 1;          ///< the last stage's work, times the others'
};

struct Result {
  double measured, simulated;
  double bubble, simulated_bubble;
  double both_ways;
};

Result run(const Case& each, int count, transport::World* world) {
  schedule::ScheduleOptions options;
  options.ranks = each.ranks;
  options.micro_batches = each.micro_batches;
  options.warmup_slack = each.slack;
  options.chunks = each.chunks;
  const schedule::Schedule schedule = schedule::generate(each.schedule, options);
  const double action = each.sleep > 0 ? each.sleep : action_seconds;
  schedule::Costs costs = schedule::uniform_costs(each.ranks, 1, {action, action, action}, 0);
  costs.blocks.assign(static_cast<size_t>(schedule.blocks()), costs.blocks.front());
  for (double* part : {&costs.blocks.back().forward, &costs.blocks.back().backward_input,
                       &costs.blocks.back().backward_weight})
    *part *= each.last;
  costs.links = {{0, each.link_seconds}};
  schedule::LoweringOptions lowering;
  lowering.reduce_gradients = false;
  lowering.receive_lead = sufficient_receive_lead(schedule, costs, lowering);
  const schedule::Program program = schedule::lower(schedule, costs, lowering);
  const runtime::ReplayTimes times(program, costs);
  replay::ReplayOptions replay;
  replay.sleeping = true;
  replay.steps = steps + 1;
  replay.message_bytes = message_bytes;
  if (each.sleep == 0) {
    replay.make_stage = [&](Device& device, int stage, const auto& windows) {
      const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
      const int rank = schedule.rank_of_stage[static_cast<size_t>(stage)];
      const int work = schedule.is_last(stage) ? static_cast<int>(each.last * count) : count;
      return std::make_unique<ProductStage>(device, times, stage, windows,
                                            ProductStage::Work{work, work, work}, rank % cores);
    };
  }
  MeasuredSteps measured(program, steps);
  const auto sink = [&](uint64_t step, std::span<const replay::RankStep> ranks) {
    if (step > 0) measured.add(ranks);  // the first warms up
  };
  if (world != nullptr) {
    replay::run_replay_rank(*world, program, times, replay, sink);
    if (world->rank() != 0) return {};
  } else {
    replay::run_replay(program, times, replay, sink);
  }
  schedule::Costs found = measured.costs();
  // What the delay is known to be; what waking up adds to it is the run's.
  if (each.link_seconds > 0) found.links = costs.links;
  const schedule::Measures simulated = measure(program, schedule::simulate(program, found));
  return {measured.makespan(), simulated.makespan, measured.bubble(), simulated.bubble_ratio,
          measured.both_ways(each.ranks / 2)};
}

void run_steps(int count, transport::World* world) {
  const bool prints = world == nullptr || world->rank() == 0;
  if (prints) {
    fmt::print("steps of 2 ranks ({}), {} products an action, medians of {} steps\n",
               world == nullptr ? "threads" : "processes", count, steps);
    fmt::print("{:>12}{:>11}{:>4}{:>14}{:>14}{:>8}\n", "schedule", "last stage", "M", "measured ms",
               "simulated ms", "ratio");
  }
  struct Kind {
    const char* schedule;
    int chunks;
  };
  for (const Kind kind : {Kind{"gpipe", 0}, {"1f1b", 0}, {"interleaved", 2}, {"zb-h1", 0}, {"zbv", 0}}) {
    for (const double last : {1.0, 1.5}) {
      for (const int micro_batches : {2, 4}) {
        const Result result =
            run({kind.schedule, 2, micro_batches, 0, 0, 0, kind.chunks, last}, count, world);
        if (!prints) continue;
        fmt::print("{:>12}{:>10.1f}x{:>4}{:>14.2f}{:>14.2f}{:>8.4f}\n", kind.schedule, last, micro_batches,
                   1e3 * result.measured, 1e3 * result.simulated, result.measured / result.simulated);
        static_cast<void>(std::fflush(stdout));  // a lost line shows
      }
    }
  }
}

void run_overlap(int count) {
  constexpr double delay = action_seconds / 2;
  fmt::print("\noverlap: every message takes {:.0f} ms\n", 1e3 * delay);
  fmt::print("{:>16}{:>7}{:>12}{:>13}{:>10}{:>16}\n", "1f1b", "slack", "bubble %", "simulated %", "points",
             "both ways ms");
  for (const bool asleep : {true, false}) {
    for (const int slack : {0, 1, 2}) {
      const Case each{"1f1b", asleep ? 4 : 2, 8, slack, delay, asleep ? action_seconds : 0};
      const Result result = run(each, count, nullptr);
      fmt::print("{:>16}{:>7}{:>12.2f}{:>13.2f}{:>10.2f}{:>16.2f}\n", asleep ? "4 ranks asleep" : "2 ranks",
                 slack, 100 * result.bubble, 100 * result.simulated_bubble,
                 100 * (result.bubble - result.simulated_bubble), 1e3 * result.both_ways);
      static_cast<void>(std::fflush(stdout));
    }
  }
}

}  // namespace
}  // namespace penstock::bench

int main() {
  using namespace penstock;
  try {
    const std::unique_ptr<transport::World> world = bench::launched_world("bench_bubbles", 2);
    const auto abort = world ? std::make_unique<transport::AbortOnUnwind>(*world) : nullptr;
    const int count = bench::products(world.get());
    bench::run_steps(count, world.get());
    if (!world) bench::run_overlap(count);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_bubbles: %s\n", error.what());
    return 1;
  }
}
