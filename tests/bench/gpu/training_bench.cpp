// bench_training MODEL.toml: whole optimizer steps of one rank on a GPU. Tokens a second, model FLOPs as a
// share of what the data sheet promises, memory beside its plan. Random tokens: only time is measured.
//
// Where the activations of a micro-batch do not fit, more of them are recomputed, and then micro-batches are
// halved; the row says so. Step time is the host's: from the start of a step to its loss.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/device/error.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "model/flops.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/backend.h"
#include "trainer/job/read_job.h"
#include "trainer/step_batches.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Dense bf16 of H100 and H200 (SXM), NVIDIA's data sheet.
constexpr double default_peak = 989e12;

struct Request {
  std::string model;
  int64_t sequence = 1024;
  int64_t sequences = 32;  ///< a micro-batch
  int64_t micro_batches = 4;
  int steps = 5;
  double peak = default_peak;
  std::string json;
};

struct Measured {
  double step = 0;  ///< seconds, median
  double loss = 0;
  size_t planned = 0;  ///< bytes of all arenas
  size_t held = 0;     ///< bytes of the GPU that the run took, context and libraries included
};

Job job_of(const Request& request) {
  std::ifstream in(request.model);
  const std::string model{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in || model.empty()) throw std::runtime_error(request.model + " cannot be read");
  return parse_job(model + R"(
[run]
name = "bench"
steps = 1000000
[data]
train = ["none"]
[precision]
compute = "bf16"
[parallel]
device = "cuda"
[learning_rate]
max = 1e-4
)",
                   request.model,
                   {fmt::format("model.sequence_length={}", request.sequence),
                    fmt::format("batch.micro={}", request.sequences),
                    fmt::format("batch.global={}", request.sequences * request.micro_batches)});
}

size_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), [] { return "asking how much memory the GPU has left"; });
  return free;
}

void fill(BatchSet& set, int64_t vocab) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> uniform(0, static_cast<int32_t>(vocab - 1));
  for (HostMicroBatch& batch : set.batches()) {
    for (size_t at = 0; at < batch.tokens.size(); ++at) {
      batch.tokens[at] = uniform(random);
      batch.targets[at] = uniform(random);
    }
  }
}

Measured measure(const Job& job, int steps) {
  cuda::use_gpu(0);
  const size_t free_before = free_bytes();
  Measured result;
  Backend backend = make_backend(job, 0);
  transport::run_inproc(1, {}, [&](transport::World& world) {
    runtime::PipelineEngine engine(*backend.device, backend.math, world,
                                   runtime::plan_pipeline(pipeline_request(job)));
    engine.rank().initialise(engine.stream());
    result.planned = engine.rank().memory().plan().bytes();
    BatchSet set(job, job.micro_batches(), *backend.device);
    fill(set, job.model.vocab_size);
    const int64_t tokens = set.target_tokens(set.bands().size());
    std::vector<double> times;
    constexpr int warm_up = 2;
    for (int step = 0; step < steps + warm_up; ++step) {
      const auto start = Clock::now();
      engine.start_step({static_cast<uint64_t>(step), 1e-4, tokens}, set.bands());
      result.loss = engine.finish_step().loss_sum / static_cast<double>(tokens);
      if (step >= warm_up) times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    std::sort(times.begin(), times.end());
    result.step = times[times.size() / 2];
    result.held = free_before - std::min(free_before, free_bytes());
  });
  if (!std::isfinite(result.loss)) throw std::runtime_error("the loss is not finite");
  return result;
}

nlohmann::json row_of(const Request& request, const Job& job, const Measured& found) {
  const auto tokens = static_cast<double>(request.sequence * request.sequences * request.micro_batches);
  const double rate = tokens / found.step;
  const double flop = model::training_flops_per_token(job.model);
  return {{"model", std::filesystem::path(request.model).stem().string()},
          {"sequence", request.sequence},
          {"sequences", request.sequences},
          {"micro_batches", request.micro_batches},
          {"step_seconds", found.step},
          {"tokens_per_second", rate},
          {"flop_per_token", flop},
          {"share_of_peak", rate * flop / request.peak},
          {"planned_bytes", found.planned},
          {"held_bytes", found.held},
          {"loss", found.loss}};
}

nlohmann::json measure_what_fits(Request request) {
  for (;; request.sequences /= 2, request.micro_batches *= 2) {
    const Job job = job_of(request);
    try {
      return row_of(request, job, measure(job, request.steps));
    } catch (const DeviceError& error) {
      const bool fits = std::string_view(error.what()).find("does not fit") == std::string_view::npos;
      if (fits || request.sequences == 1) throw;
    }
  }
}

void print(const nlohmann::json& row) {
  constexpr double gib = 1 << 30;
  fmt::print(
      "{:<6} {:>2} x {:<5} micro-batches {:<3} {:>8.1f} ms a step {:>9.0f} tokens/s "
      "{:>5.1f} % of peak   {:.2f} GiB planned, {:.2f} GiB held\n",
      row["model"].get<std::string>(), row["sequences"].get<int64_t>(), row["sequence"].get<int64_t>(),
      row["micro_batches"].get<int64_t>(), row["step_seconds"].get<double>() * 1e3,
      row["tokens_per_second"].get<double>(), row["share_of_peak"].get<double>() * 100,
      row["planned_bytes"].get<double>() / gib, row["held_bytes"].get<double>() / gib);
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) try {
  using namespace penstock::bench;
  CLI::App app{"Whole optimizer steps of one rank on a GPU"};
  Request request;
  app.add_option("model", request.model, "a [model] section, as tests/bench/gpu/models has them")->required();
  app.add_option("--sequence", request.sequence, "tokens of a sequence")->check(CLI::PositiveNumber);
  app.add_option("--sequences", request.sequences, "of a micro-batch")->check(CLI::PositiveNumber);
  app.add_option("--micro-batches", request.micro_batches, "of a step")->check(CLI::PositiveNumber);
  app.add_option("--steps", request.steps, "that are timed, behind two that are not")
      ->check(CLI::PositiveNumber);
  app.add_option("--peak", request.peak, "FLOP/s that the data sheet promises")->check(CLI::PositiveNumber);
  app.add_option("--json", request.json, "also write the row there");
  CLI11_PARSE(app, argc, argv);
  const nlohmann::json row = measure_what_fits(request);
  print(row);
  if (!request.json.empty()) {
    std::ofstream out(request.json);
    out << row.dump() << '\n';
    if (!out.flush()) throw std::runtime_error("writing " + request.json + " failed");
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_training: {}\n", error.what());
  return 1;
}
