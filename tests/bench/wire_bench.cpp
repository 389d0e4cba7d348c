// What a wire of another dtype costs and what it loses: two ranks of this process compute in fp32 and send
// activations and their gradients (two stages), or sum gradients (two replicas), in fp32, bf16 and fp16, in
// turns. Time against fp32 wires within one run; error of the first stage's gradients, or of the sums,
// against those of fp32 wires over the same first step. Messages of threads are copies: what a narrow wire
// saves on a network is the share of its bytes. Processors should be as many as ranks, and free.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/transport/inproc/inproc_world.h"
#include "model/memory_plan.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/accounting/median.h"
#include "trainer/backend.h"
#include "trainer/job/read_job.h"
#include "trainer/loss_scaler.h"
#include "trainer/step_batches.h"

namespace penstock {
namespace {

constexpr int vocabulary = 2048;
constexpr int sequence = 64;
constexpr int steps = 4;
constexpr std::array<const char*, 3> dtypes{"fp32", "bf16", "fp16"};

Job job_of(bool stages, const std::string& wire) {
  return parse_job(fmt::format(R"(
[run]
name = "bench"
steps = 1000
[model]
family = "gpt2"
layers = 4
hidden_size = 384
heads = 6
sequence_length = {}
vocab_size = {}
[data]
train = ["none"]
[batch]
global = 8
micro = 1
[precision]
compute = "fp32"
{} = "{}"
[parallel]
pipeline = {}
data = {}
[learning_rate]
max = 1e-4
)",
                               sequence, vocabulary, stages ? "p2p" : "gradient_reduce", wire, stages ? 2 : 1,
                               stages ? 1 : 2),
                   "bench", {});
}

struct Measured {
  std::vector<double> seconds;   ///< a step, as its host waits for it
  std::vector<float> gradients;  ///< rank 0's of the first step, without the loss scale
  size_t message = 0;            ///< bytes of a boundary's
};

void train(const Job& job, transport::World& world, Measured& measured) {
  const transport::AbortOnUnwind abort(world);
  Backend backend = make_backend(job, world.rank());
  runtime::PipelineEngine engine(*backend.device, backend.math, world,
                                 runtime::plan_pipeline(pipeline_request(job)));
  engine.rank().initialise(engine.stream());
  BatchSet set(job, job.micro_batches(), *backend.device);
  std::mt19937 random(1 + static_cast<unsigned>(engine.place().replica));
  for (HostMicroBatch& batch : set.batches()) {
    for (size_t at = 0; at < batch.tokens.size(); ++at) {
      batch.tokens[at] = static_cast<int32_t>(random() % vocabulary);
      batch.targets[at] = static_cast<int32_t>(random() % vocabulary);
      batch.positions[at] = static_cast<int32_t>(at % sequence);
    }
  }
  const double scale = LossScaler(job).scale();
  for (int step = 0; step <= steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    engine.start_step({static_cast<uint64_t>(step), 1e-4, job.batch.global * sequence, scale}, set.bands());
    engine.finish_step();
    if (world.rank() != 0) continue;
    if (step > 0) {
      measured.seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    } else if (measured.gradients.empty()) {
      measured.message = model::boundary_bytes(engine.rank().config());
      for (const auto& unit : engine.rank().parameters().unit_gradients()) {
        for (int64_t i = 0; i < unit.values.elements(); ++i)
          measured.gradients.push_back(unit.values.as<float>()[i] / static_cast<float>(scale));
      }
    }
  }
}

double distance(const std::vector<float>& found, const std::vector<float>& expected) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double off = static_cast<double>(found[i]) - static_cast<double>(expected[i]);
    difference += off * off;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return std::sqrt(difference / norm);
}

void compare(bool stages, int rounds) {
  std::array<Measured, dtypes.size()> all;
  for (int round = 0; round < rounds; ++round) {
    for (size_t wire = 0; wire < dtypes.size(); ++wire) {
      const Job job = job_of(stages, dtypes[wire]);
      transport::run_inproc(2, {}, [&](transport::World& world) { train(job, world, all[wire]); });
    }
  }
  const double wide = accounting::median(all[0].seconds);
  for (size_t wire = 0; wire < dtypes.size(); ++wire) {
    const Measured& one = all[wire];
    const size_t bytes = stages ? one.message : one.gradients.size() * (wire == 0 ? 4 : 2);
    fmt::print("| {} | {} | {:.1f} KiB | {:.1e} | {:.3f} |\n",
               stages ? "p2p, 2 stages" : "gradient_reduce, 2 replicas", dtypes[wire],
               static_cast<double>(bytes) / 1024, distance(one.gradients, all[0].gradients),
               accounting::median(one.seconds) / wide);
  }
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  if (rounds < 1) {
    fmt::print(stderr, "usage: bench_wire [rounds]\n");
    return 2;
  }
  fmt::print("| wire | dtype | a message, or all gradients | error of the gradients | step ÷ fp32's |\n");
  fmt::print("|---|---|---|---|---|\n");
  for (const bool stages : {true, false}) penstock::compare(stages, rounds);
  return 0;
}
