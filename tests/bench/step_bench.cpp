// Whole optimizer steps of GPT-2 124M (fp32, batch 4 × 64) against the roof of large matrix products in the
// same run: model FLOP/s as a share of the roof, peak memory, two threads against one. Random tokens: only
// time is measured.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/transport/inproc/inproc_world.h"
#include "model/flops.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/backend.h"
#include "trainer/job/read_job.h"
#include "trainer/process_memory.h"
#include "trainer/report/matmul_roof.h"
#include "trainer/step_batches.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Job gpt2_124m(int64_t threads, const std::string& precision) {
  return parse_job(fmt::format(R"(
[run]
name = "bench"
steps = 1000
[model]
family = "gpt2"
layers = 12
hidden_size = 768
heads = 12
sequence_length = 64
vocab_size = 50257
[data]
train = ["none"]
[batch]
global = 4
micro = 4
[precision]
compute = "{}"
[parallel]
threads = {}
[learning_rate]
max = 1e-4
)",
                               precision, threads),
                   "bench", {});
}

struct Measured {
  double roof = 0;        ///< FLOP/s of large products, the best seen before and after the steps
  double step = 0;        ///< seconds, median
  double first_step = 0;  ///< seconds from nothing to the end of the first step
  double share = 0;       ///< model FLOP/s ÷ roof
  size_t planned = 0;
};

Measured measure(int64_t threads, const std::string& precision, int steps) {
  const Job job = gpt2_124m(threads, precision);
  Measured result;
  Backend backend = make_backend(job, 0);
  const DType compute = model::compute_dtype(job.precision.compute);
  result.roof = measure_matmul_roof(*backend.device, backend.math, compute);
  const auto start = Clock::now();
  std::vector<double> times;
  transport::run_inproc(1, {}, [&](transport::World& world) {
    runtime::PipelineEngine engine(*backend.device, backend.math, world,
                                   runtime::plan_pipeline(pipeline_request(job)));
    engine.rank().initialise(engine.stream());
    result.planned = engine.rank().memory().plan().bytes();
    BatchSet set(job, job.micro_batches(), *backend.device);
    std::mt19937 random(1);
    for (HostMicroBatch& batch : set.batches()) {
      for (size_t at = 0; at < batch.tokens.size(); ++at) {
        batch.tokens[at] = static_cast<int32_t>(random() % 50257);
        batch.targets[at] = static_cast<int32_t>(random() % 50257);
        batch.positions[at] = static_cast<int32_t>(at % 64);
      }
    }
    const int64_t tokens = set.target_tokens(set.bands().size());
    for (int step = 0; step <= steps; ++step) {
      const auto begin = Clock::now();
      engine.start_step({static_cast<uint64_t>(step), 1e-4, tokens}, set.bands());
      engine.finish_step();
      if (step == 0) {
        result.first_step = seconds_since(start);
      } else {
        times.push_back(seconds_since(begin));
      }
    }
    std::sort(times.begin(), times.end());
    result.step = times[times.size() / 2];
    const double flops = static_cast<double>(tokens) * model::training_flops_per_token(job.model);
    result.share = flops / result.step / result.roof;
  });
  result.roof = std::max(result.roof, measure_matmul_roof(*backend.device, backend.math, compute));
  return result;
}

void print(const char* what, const Measured& m) {
  fmt::print(
      "{:<22} {:>8.1f} ms a step  {:>6.1f} GFLOP/s roof  {:>5.1f} % of the roof  first step after {:.2f} s\n",
      what, m.step * 1e3, m.roof / 1e9, m.share * 100, m.first_step);
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  using namespace penstock;
  const int steps = argc > 1 ? std::atoi(argv[1]) : 7;
  fmt::print("GPT-2 124M, batch 4 x 64, median of {} steps\n", steps);
  const Measured two = measure(2, "fp32", steps);
  const size_t peak = process_memory().peak;
  print("fp32, two threads", two);
  fmt::print("{:<22} {:>8.2f} GiB peak resident, {:.2f} GiB planned on the device\n", "",
             static_cast<double>(peak) / (1 << 30), static_cast<double>(two.planned) / (1 << 30));
  const Measured one = measure(1, "fp32", steps);
  print("fp32, one thread", one);
  fmt::print("{:<22} {:>8.2f} x as fast with two threads\n", "", one.step / two.step);
  const Measured bf16 = measure(2, "bf16", steps);
  print("bf16, two threads", bf16);
  return 0;
}
