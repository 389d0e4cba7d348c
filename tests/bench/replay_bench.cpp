// How fast a pipeline is replayed in virtual time: steps and instructions a second, by number of ranks.
//   bench_replay [ranks ...]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include <fmt/format.h>

#include "parallel/schedule/catalogue.h"
#include "trainer/replay/replay_run.h"

namespace penstock::replay {
namespace {

void run(int ranks) {
  schedule::ScheduleOptions options;
  options.ranks = ranks;
  options.micro_batches = 80;
  const schedule::Schedule schedule = schedule::generate("1f1b", options);
  schedule::Costs costs = schedule::uniform_costs(ranks, 1, {0.010, 0.010, 0.010}, 0.0005);
  costs.optimizer_step = 0.002;
  const schedule::Program program = schedule::lower(schedule, costs, {});
  const runtime::ReplayTimes times(program, costs, {}, {0.02, 0.02, 0.9, 1});
  ReplayOptions replay;
  replay.steps = static_cast<uint64_t>(1600 / ranks);
  double virtual_seconds = 0;
  const auto start = std::chrono::steady_clock::now();
  run_replay(program, times, replay,
             [&](uint64_t, std::span<const RankStep> all) { virtual_seconds = all.front().times.end; });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  double instructions = 0;
  for (const schedule::RankProgram& rank : program.ranks)
    instructions += static_cast<double>(rank.instructions.size());
  const double a_second = static_cast<double>(replay.steps) / seconds;
  fmt::print("{:>6} {:>6} {:>12.0f} {:>10.1f} {:>16.0f} {:>14.0f}\n", ranks, options.micro_batches,
             instructions, a_second, a_second * instructions, virtual_seconds / seconds);
}

}  // namespace
}  // namespace penstock::replay

int main(int argc, char** argv) {
  try {
    std::vector<int> ranks{1, 2, 4, 8, 16, 32, 64};
    if (argc > 1) ranks.clear();
    for (int i = 1; i < argc; ++i) ranks.push_back(std::atoi(argv[i]));
    fmt::print("{:>6} {:>6} {:>12} {:>10} {:>16} {:>14}\n", "ranks", "M", "instructions", "steps/s",
               "instructions/s", "times real");
    for (const int each : ranks) penstock::replay::run(each);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_replay: %s\n", error.what());
    return 1;
  }
}
