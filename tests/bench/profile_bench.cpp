// What a profile of single units says of a whole step, against the step, in the same run: one rank, where no
// schedule comes between them. Also the formula's shares against the measured ones.
//   build/release/tests/bench/bench_profile [steps]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "kernels/transport/inproc/inproc_world.h"
#include "parallel/runtime/partition.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/backend.h"
#include "trainer/job/read_job.h"
#include "trainer/job_costs.h"
#include "trainer/job_profile.h"
#include "trainer/step_batches.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

Job bench_job() {
  return parse_job(R"(
[run]
name = "bench"
steps = 1000
[model]
family = "gpt2"
layers = 4
hidden_size = 384
heads = 6
sequence_length = 256
vocab_size = 8192
[data]
train = ["none"]
[batch]
global = 8
micro = 2
[learning_rate]
max = 1e-4
)",
                   "bench", {});
}

double median_step(const Job& job, transport::World& world, Backend& backend, int steps) {
  runtime::PipelineEngine engine(*backend.device, backend.math, world,
                                 runtime::plan_pipeline(pipeline_request(job)));
  engine.rank().initialise(engine.stream());
  BatchSet set(job, job.micro_batches(), *backend.device);
  std::mt19937 random(1);
  for (HostMicroBatch& batch : set.batches()) {
    for (size_t at = 0; at < batch.tokens.size(); ++at) {
      batch.tokens[at] = static_cast<int32_t>(random() % 8192);
      batch.targets[at] = static_cast<int32_t>(random() % 8192);
      batch.positions[at] = static_cast<int32_t>(at % 256);
    }
  }
  std::vector<double> seconds;
  for (int step = 0; step <= steps; ++step) {
    const auto begin = Clock::now();
    engine.start_step({static_cast<uint64_t>(step), 1e-4, set.target_tokens(set.bands().size())},
                      set.bands());
    engine.finish_step();
    if (step > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  using namespace penstock;
  const int steps = argc > 1 ? std::atoi(argv[1]) : 9;
  const Job job = bench_job();
  transport::run_inproc(1, {}, [&](transport::World& world) {
    Backend backend = make_backend(job, 0);
    const planner::Recompute none = planner::Recompute::none;
    planner::Profile profile =
        measure_profile(*backend.device, backend.math, world, profile_request(job, {job.batch.micro}, {none}),
                        [](int, int) {});
    describe(profile, job);
    const planner::ModelCosts costs = planner::model_costs(profile, job.batch.micro);
    double optimizer = 0;
    for (const planner::UnitCosts& unit : costs.units) optimizer += unit.optimizer_step;
    const std::vector<double> units = runtime::unit_seconds(costs, none);
    const double expected = static_cast<double>(job.micro_batches()) * sum(units) + optimizer;
    const double measured = median_step(job, world, backend, steps);
    fmt::print("a step: {:.2f} ms by its units, {:.2f} ms measured (median of {}): {:.3f}\n", 1e3 * expected,
               1e3 * measured, steps, expected / measured);
    const JobCosts formula =
        costs_by_formula(job, backend, measured_rates(backend, DType::fp32), "for comparison");
    const std::vector<double> formulas = runtime::unit_seconds(formula.model, none);
    fmt::print("{:<10} {:>12} {:>12} {:>9} {:>9}\n", "unit", "measured ms", "formula ms", "share %",
               "share %");
    for (const size_t unit : {size_t{0}, size_t{1}, size_t{2}, units.size() - 1}) {
      fmt::print("{:<10} {:>12.3f} {:>12.3f} {:>9.1f} {:>9.1f}\n", costs.units[unit].name, 1e3 * units[unit],
                 1e3 * formulas[unit], 100 * units[unit] / sum(units), 100 * formulas[unit] / sum(formulas));
    }
  });
  return 0;
}
