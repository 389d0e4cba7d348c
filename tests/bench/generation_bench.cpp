// GPT-2 124M, weights of a random start: text token by token (batches of 1, 4, 8 and 16) against the rate at
// which this machine reads those weights and the roof of large matrix products, each kernel against the
// nearer of both, and prompts and evaluation too, all measured in the same run. Only time is measured.
// --kernels also says, by kernel, where the time goes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/cpu/read_rate.h"
#include "kernels/cpu/task_times.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "model/flops.h"
#include "parallel/runtime/cached_engine.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/backend.h"
#include "trainer/job/read_job.h"
#include "trainer/next_token.h"
#include "trainer/report/matmul_roof.h"
#include "trainer/step_batches.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t sequence = 256;
constexpr int64_t prompt = 64;
constexpr int steps = 24;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

Job gpt2_124m(const std::string& precision) {
  return parse_job(fmt::format(R"(
[run]
name = "bench"
steps = 1
[model]
family = "gpt2"
layers = 12
hidden_size = 768
heads = 12
sequence_length = {}
vocab_size = 50257
[data]
train = ["none"]
[batch]
global = 8
micro = 4
[precision]
compute = "{}"
[parallel]
threads = 2
[learning_rate]
max = 1e-4
)",
                               sequence, precision),
                   "bench", {});
}

runtime::PipelinePlan forward_plan(const Job& job) {
  runtime::PipelineRequest request = pipeline_request(job);
  request.forward_only = true;
  return runtime::plan_pipeline(request);
}

double forward_flops(const Job& job, int64_t tokens) {
  return static_cast<double>(tokens) * model::training_flops_per_token(job.model) / 3;
}

/// The memory of the weights that products read.
std::vector<std::span<const float>> matrices(const model::ParameterStore& store) {
  std::vector<std::span<const float>> found;
  for (const model::Parameter& parameter : store.parameters()) {
    const Tensor& weights = parameter.compute;
    if (parameter.spec.shape.rank == 2 && !parameter.shared)
      found.emplace_back(static_cast<const float*>(weights.data), weights.bytes() / sizeof(float));
  }
  return found;
}

/// What reading a prompt takes at its bounds: the layers multiply at the roof's rate, the head, which only
/// the last token passes, reads its weights; `seconds`: of reading an element.
double prompt_seconds(const Job& job, double roof, double seconds) {
  const auto head = static_cast<double>(job.model.hidden_size * job.model.vocab_size);
  const auto weights = static_cast<double>(model::matmul_parameters(job.model)) - head;
  const auto keys = static_cast<double>(2 * job.model.layers * job.model.hidden_size) * (prompt + 1) / 2;
  return 2 * prompt * (weights + keys) / roof + head * seconds;
}

/// What the calls took by kernel, a call.
void print_kernels(const char* what, const std::vector<cpu::TaskTime>& kernels, size_t calls) {
  fmt::print("  {}:", what);
  for (const cpu::TaskTime& kernel : kernels)
    fmt::print(" {} {:.2f} ms;", kernel.name, 1e3 * kernel.seconds / static_cast<double>(calls));
  fmt::print("\n");
}

void generate(const Job& job, transport::World& world, int64_t slots, double roof, bool by_kernel) {
  const int threads = static_cast<int>(job.parallel.threads);
  Backend backend = make_backend(job, 0);
  runtime::CachedEngine engine(*backend.device, backend.math, world, forward_plan(job), {slots, sequence});
  engine.rank().parameters().initialise(engine.stream(), backend.math, 1);
  engine.rank().clear_state(engine.stream());
  const std::vector<std::span<const float>> weights = matrices(engine.rank().parameters());
  double bound = cpu::measure_read_rate(threads, weights);
  std::vector<int32_t> text(prompt, 11);
  std::optional<cpu::TaskTimes> kernels;
  if (by_kernel) kernels.emplace();
  std::vector<double> reads;
  for (int64_t slot = 0; slot < std::max<int64_t>(3, slots); ++slot) {
    const auto start = Clock::now();
    engine.read(slot % slots, text);
    if (slot > 0) reads.push_back(seconds_since(start));
  }
  if (by_kernel) print_kernels("a prompt", kernels->take(), reads.size() + 1);
  TokenSampler sampler(TokenChoice{.temperature = 0}, job.model.vocab_size);
  std::vector<int32_t> next(static_cast<size_t>(slots), 12);
  std::vector<double> times;
  for (int step = 0; step < steps; ++step) {
    const auto start = Clock::now();
    engine.advance(next);
    for (size_t slot = 0; slot < next.size(); ++slot)
      next[slot] = sampler.next(engine.logits(static_cast<int64_t>(slot)), slot, 0);
    if (step > 2) times.push_back(seconds_since(start));
  }
  if (by_kernel) print_kernels("a step", kernels->take(), steps);
  bound = std::max(bound, cpu::measure_read_rate(threads, weights));
  const auto element = static_cast<double>(size_of(engine.rank().config().compute));
  const double kept = static_cast<double>(2 * job.model.layers * job.model.hidden_size * slots) *
                      (static_cast<double>(prompt) + steps / 2.0);
  const auto parameters = static_cast<double>(model::matmul_parameters(job.model));
  const double bytes = element * (parameters + kept);
  const double step = median(times);
  const double flops = 2 * (static_cast<double>(slots) * parameters + kept);
  // Each kernel at its nearer bound: products read weights or multiply, attention reads what was kept.
  const double products =
      std::max(element * parameters / bound, 2 * static_cast<double>(slots) * parameters / roof);
  const double share = (products + element * kept / bound) / step;
  const double prompt_share = prompt_seconds(job, roof, element / bound) / median(reads);
  fmt::print(
      "| {} | {} | {:.1f} ms | {:.1f} | {:.1f} of {:.1f} GB/s | {:.0f} of {:.0f} | {:.0f} % | {:.0f} | "
      "{:.0f} % |\n",
      name_of(engine.rank().config().compute), slots, 1e3 * step, static_cast<double>(slots) / step,
      bytes / step / 1e9, bound / 1e9, flops / step / 1e9, roof / 1e9, 100 * share, prompt / median(reads),
      100 * prompt_share);
  std::fflush(stdout);
}

void evaluate(const Job& job, transport::World& world) {
  Backend backend = make_backend(job, 0);
  const DType compute = model::compute_dtype(job.precision.compute);
  double roof = measure_matmul_roof(*backend.device, backend.math, compute);
  double seconds = 0;
  const int64_t tokens = job.batch.global * sequence;
  {
    runtime::PipelineEngine engine(*backend.device, backend.math, world, forward_plan(job));
    engine.rank().initialise(engine.stream());
    BatchSet set(job, job.micro_batches(), *backend.device);
    std::mt19937 random(1);
    for (HostMicroBatch& batch : set.batches()) {
      for (size_t at = 0; at < batch.tokens.size(); ++at) {
        batch.tokens[at] = static_cast<int32_t>(random() % 50257);
        batch.targets[at] = static_cast<int32_t>(random() % 50257);
        batch.positions[at] = static_cast<int32_t>(at % sequence);
      }
    }
    std::vector<double> times;
    for (int pass = 0; pass < 4; ++pass) {
      const auto start = Clock::now();
      engine.evaluate(set.bands());
      if (pass > 0) times.push_back(seconds_since(start));
    }
    seconds = median(times);
  }
  roof = std::max(roof, measure_matmul_roof(*backend.device, backend.math, compute));
  fmt::print("| {} | {:.0f} ms | {:.0f} | {:.0f} of {:.0f} GFLOP/s | {:.0f} % |\n", name_of(compute),
             1e3 * seconds, static_cast<double>(tokens) / seconds, forward_flops(job, tokens) / seconds / 1e9,
             roof / 1e9, 100 * forward_flops(job, tokens) / seconds / roof);
  std::fflush(stdout);
}

double roof_of(const Job& job) {
  Backend backend = make_backend(job, 0);
  return measure_matmul_roof(*backend.device, backend.math, model::compute_dtype(job.precision.compute));
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  using namespace penstock;
  const bool by_kernel = argc == 2 && std::string(argv[1]) == "--kernels";
  if (argc > 1 && !by_kernel) {
    fmt::print(stderr, "usage: bench_generation [--kernels]\n");
    return 2;
  }
  transport::run_inproc(1, {}, [by_kernel](transport::World& world) {
    const std::vector<std::string> precisions{"fp32", "bf16"};
    fmt::print(
        "Evaluation, micro-batches of 4 x {} tokens, 2 threads\n\n"
        "| | {} tokens | tokens/s | products | share of the roof |\n|---|---|---|---|---|\n",
        sequence, 8 * sequence);
    for (const std::string& precision : precisions) evaluate(gpt2_124m(precision), world);
    fmt::print(
        "\nGeneration behind {} tokens, 2 threads\n\n"
        "| | texts at once | a step | tokens/s | weights and cache | GFLOP/s | share of the bounds | "
        "prompt tokens/s | share of its bounds |\n|---|---|---|---|---|---|---|---|---|\n",
        prompt);
    for (const std::string& precision : precisions) {
      const Job job = gpt2_124m(precision);
      const double roof = roof_of(job);
      for (const int64_t slots : {1, 4, 8, 16}) generate(job, world, slots, roof, by_kernel);
    }
  });
  return 0;
}
