// How long a plan takes: all schedules, chunks and slacks open, costs of units all different.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "parallel/planner/plan.h"

namespace penstock::planner {
namespace {

// A model of `units` units whose costs lie within a fifth of each other.
ModelCosts uneven_model(int units) {
  ModelCosts model;
  model.boundary_bytes = 32 << 20;
  model.tokens = 4096;
  for (int unit = 0; unit < units; ++unit) {
    UnitCosts made;
    made.name = fmt::format("unit_{}", unit);
    made.parameters = made.flops = made.layers = 1;
    const double time = 0.005 * (1 + 0.2 * ((unit * 7919) % 101) / 100.0);
    made.modes.fill({time, 0, time, time, 1000, 1000, 1000, 0});
    model.units.push_back(made);
  }
  return model;
}

// Ranks, units, micro-batches.
void plan(benchmark::State& state) {
  PlanRequest request;
  request.machine.ranks = static_cast<int>(state.range(0));
  request.machine.links.edges = {{5e-6, 50e9}};
  request.workloads.push_back(
      {uneven_model(static_cast<int>(state.range(1))), static_cast<int>(state.range(2))});
  for ([[maybe_unused]] auto unused : state) {
    const Plan made = make_plan(request);
    state.SetLabel(
        fmt::format("{}, idle {:.1f} %", made.chosen.schedule, 100 * made.chosen.prediction.idle_ratio));
  }
}

BENCHMARK(plan)
    ->ArgNames({"ranks", "units", "micro_batches"})
    ->Args({8, 66, 80})
    ->Args({64, 128, 256})
    ->Args({64, 128, 512})
    ->Args({2048, 4098, 2048})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace penstock::planner

BENCHMARK_MAIN();
