// bench_step MODEL.toml: whole optimizer steps on the processor, against the roof of large matrix products in
// the same run. Model FLOPs as a share of the roof, peak memory, and with --kernels where the time goes.
// Random tokens: only time is measured.
//   bench_step MODEL.toml                       one rank, or --ranks of them as threads
//   mpirun -n 2 bench_step MODEL.toml --ranks 2 ranks are processes
#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/cpu/task_times.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "model/flops.h"
#include "parallel/runtime/pipeline_engine.h"
#include "tests/bench/launched_world.h"
#include "trainer/accounting/median.h"
#include "trainer/backend.h"
#include "trainer/job/read_job.h"
#include "trainer/process_memory.h"
#include "trainer/report/matmul_roof.h"
#include "trainer/step_batches.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Request {
  std::string model;
  int64_t sequence = 256;
  int64_t sequences = 4;  ///< a micro-batch
  int64_t micro_batches = 1;
  int64_t threads = 2;  ///< a rank
  int ranks = 1;
  std::string schedule = "1f1b";
  std::string precision = "fp32";
  int steps = 5;
  bool kernels = false;
  std::string json;
};

/// Tasks of one name in a step.
struct Kernel {
  std::string name;
  uint64_t count = 0;
  double seconds = 0;  ///< median of the steps
};

struct Measured {
  double roof = 0;        ///< FLOP/s of large products, the best seen before and after the steps
  double step = 0;        ///< seconds, median
  double first_step = 0;  ///< seconds from nothing to the end of the first step
  size_t planned = 0;     ///< bytes of all arenas
  double loss = 0;        ///< of the last step
  std::vector<Kernel> kernels;
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
[learning_rate]
max = 1e-4
)",
                   request.model,
                   {fmt::format("model.sequence_length={}", request.sequence),
                    fmt::format("batch.micro={}", request.sequences),
                    fmt::format("batch.global={}", request.sequences * request.micro_batches),
                    fmt::format("precision.compute={}", request.precision),
                    fmt::format("parallel.threads={}", request.threads),
                    fmt::format("parallel.pipeline={}", request.ranks),
                    fmt::format("parallel.schedule={}", request.schedule)});
}

void fill(BatchSet& set, const ModelSection& shape) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> uniform(0, static_cast<int32_t>(shape.vocab_size - 1));
  for (HostMicroBatch& batch : set.batches()) {
    for (size_t at = 0; at < batch.tokens.size(); ++at) {
      batch.tokens[at] = uniform(random);
      batch.targets[at] = uniform(random);
      batch.positions[at] = static_cast<int32_t>(at % static_cast<size_t>(shape.sequence_length));
    }
  }
}

/// From each step's times; the longest first.
std::vector<Kernel> medians(const std::vector<std::vector<cpu::TaskTime>>& steps) {
  std::map<std::string, std::vector<double>> seconds;
  std::map<std::string, uint64_t> counts;
  for (const auto& step : steps) {
    for (const cpu::TaskTime& task : step) {
      seconds[task.name].push_back(task.seconds);
      counts[task.name] = task.count;
    }
  }
  std::vector<Kernel> kernels;
  kernels.reserve(seconds.size());
  for (const auto& [name, times] : seconds)
    kernels.push_back({name, counts[name], accounting::median(times)});
  std::sort(kernels.begin(), kernels.end(),
            [](const Kernel& a, const Kernel& b) { return a.seconds > b.seconds; });
  return kernels;
}

/// The step's time is the host's on rank 0, from its start until every rank has its result.
void train(const Job& job, const Request& request, transport::World& world, Measured& result) {
  const transport::AbortOnUnwind abort(world);
  const auto start = Clock::now();
  Backend backend = make_backend(job, world);
  runtime::PipelineEngine engine(*backend.device, backend.math, world,
                                 runtime::plan_pipeline(pipeline_request(job)));
  engine.rank().initialise(engine.stream());
  BatchSet set(job, job.micro_batches(), *backend.device);
  fill(set, job.model);
  const int64_t tokens = set.target_tokens(set.bands().size());
  const bool first_rank = world.rank() == 0;
  std::unique_ptr<cpu::TaskTimes> kernels;
  std::vector<std::vector<cpu::TaskTime>> kernel_times;
  std::vector<double> times;
  for (int step = 0; step <= request.steps; ++step) {
    if (step == 1 && first_rank && request.kernels) kernels = std::make_unique<cpu::TaskTimes>();
    const auto begin = Clock::now();
    engine.start_step({static_cast<uint64_t>(step), 1e-4, tokens}, set.bands());
    const double loss = engine.finish_step().loss_sum / static_cast<double>(tokens);
    if (!first_rank) continue;
    result.loss = loss;
    if (step == 0) {
      result.first_step = seconds_since(start);
    } else {
      times.push_back(seconds_since(begin));
      if (kernels) kernel_times.push_back(kernels->take());
    }
  }
  if (!first_rank) return;
  result.kernels = medians(kernel_times);
  result.step = accounting::median(times);
  result.planned = engine.rank().memory().plan().bytes();
}

/// Of all threads of the run.
double roof_of(const Request& request) {
  Request whole = request;
  whole.threads = request.threads * request.ranks;
  whole.ranks = 1;
  const Job job = job_of(whole);
  Backend backend = make_backend(job, 0);
  return measure_matmul_roof(*backend.device, backend.math, model::compute_dtype(job.precision.compute));
}

nlohmann::json row_of(const Request& request, const Job& job, const Measured& found) {
  const auto tokens = static_cast<double>(request.sequence * request.sequences * request.micro_batches);
  const double rate = tokens / found.step;
  const double flop = model::training_flops_per_token(job.model);
  nlohmann::json kernels = nlohmann::json::array();
  for (const Kernel& kernel : found.kernels) {
    kernels.push_back({{"name", kernel.name}, {"seconds", kernel.seconds}, {"count", kernel.count}});
  }
  return {{"model", std::filesystem::path(request.model).stem().string()},
          {"precision", request.precision},
          {"sequence", request.sequence},
          {"sequences", request.sequences},
          {"micro_batches", request.micro_batches},
          {"threads", request.threads},
          {"ranks", request.ranks},
          {"step_seconds", found.step},
          {"first_step_seconds", found.first_step},
          {"tokens_per_second", rate},
          {"flop_per_token", flop},
          {"roof", found.roof},
          {"share_of_roof", rate * flop / found.roof},
          {"planned_bytes", found.planned},
          {"peak_bytes", process_memory().peak},
          {"loss", found.loss},
          {"kernels", kernels}};
}

void print(const nlohmann::json& row) {
  constexpr double gib = 1 << 30;
  const auto number = [&row](const char* key) { return row[key].get<double>(); };
  fmt::print(
      "{} {} {} x {} tokens, {} micro-batches, {} ranks of {} threads: {:.1f} ms a step, {:.1f} % of {:.1f} "
      "GFLOP/s; {:.2f} GiB peak, {:.2f} GiB planned (rank 0); first step after {:.2f} s; loss {:.4f}\n",
      row["model"].get<std::string>(), row["precision"].get<std::string>(), number("sequences"),
      number("sequence"), number("micro_batches"), number("ranks"), number("threads"),
      1e3 * number("step_seconds"), 100 * number("share_of_roof"), number("roof") / 1e9,
      number("peak_bytes") / gib, number("planned_bytes") / gib, number("first_step_seconds"),
      number("loss"));
  for (const nlohmann::json& kernel : row["kernels"]) {
    const double seconds = kernel["seconds"].get<double>();
    fmt::print("  {:<28} {:>9.2f} ms {:>6.1f} %  {:>6} times\n", kernel["name"].get<std::string>(),
               1e3 * seconds, 100 * seconds / number("step_seconds"), kernel["count"].get<uint64_t>());
  }
}

void run(const Request& request) {
  const Job job = job_of(request);
  const std::unique_ptr<transport::World> processes = launched_world("bench_step", request.ranks);
  const bool prints = !processes || processes->rank() == 0;
  Measured found;
  if (prints) found.roof = roof_of(request);
  if (processes) {
    train(job, request, *processes, found);
  } else {
    transport::run_inproc(request.ranks, {},
                          [&](transport::World& world) { train(job, request, world, found); });
  }
  if (!prints) return;
  found.roof = std::max(found.roof, roof_of(request));
  const nlohmann::json row = row_of(request, job, found);
  print(row);
  if (request.json.empty()) return;
  std::ofstream out(request.json);
  out << row.dump() << '\n';
  if (!out.flush()) throw std::runtime_error("writing " + request.json + " failed");
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) try {
  using namespace penstock::bench;
  CLI::App app{"Whole optimizer steps on the processor"};
  Request request;
  app.add_option("model", request.model, "a [model] section, as tests/bench/models has them")->required();
  app.add_option("--sequence", request.sequence, "tokens of a sequence")->check(CLI::PositiveNumber);
  app.add_option("--sequences", request.sequences, "of a micro-batch")->check(CLI::PositiveNumber);
  app.add_option("--micro-batches", request.micro_batches, "of a step")->check(CLI::PositiveNumber);
  app.add_option("--threads", request.threads, "of a rank")->check(CLI::PositiveNumber);
  app.add_option("--ranks", request.ranks, "of the pipeline")->check(CLI::PositiveNumber);
  app.add_option("--schedule", request.schedule);
  app.add_option("--precision", request.precision, "fp32, bf16 or fp16");
  app.add_option("--steps", request.steps, "that are timed, behind one that is not")
      ->check(CLI::PositiveNumber);
  app.add_flag("--kernels", request.kernels, "also where the time goes; threads of one process only");
  app.add_option("--json", request.json, "also write the row there");
  CLI11_PARSE(app, argc, argv);
  run(request);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_step: {}\n", error.what());
  return 1;
}
