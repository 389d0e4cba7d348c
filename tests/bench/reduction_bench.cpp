// What the gradient reduction costs the compute: D replicas of P pipeline ranks in this process, a thread
// each, once as replicas and once as D runs of their own that share nothing, on the same processors and in
// turns. The same work for every rank but for the reduction. Figures are ratios within one run. Random
// tokens: only time is measured. Processors should be as many as ranks, and free.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "kernels/transport/inproc/inproc_world.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/accounting/median.h"
#include "trainer/backend.h"
#include "trainer/job/read_job.h"
#include "trainer/step_batches.h"

namespace penstock {
namespace {

constexpr int micro_batches = 8;
constexpr int vocabulary = 2048;
constexpr int sequence = 64;

Job job_of(int pipeline, int replicas, int reduce_every, bool sharded) {
  return parse_job(
      fmt::format(R"(
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
global = {}
micro = 1
[parallel]
pipeline = {}
data = {}
schedule = "1f1b"
reduce_every = {}
sharded_optimizer = {}
[learning_rate]
max = 1e-4
)",
                  sequence, vocabulary, micro_batches * replicas, pipeline, replicas, reduce_every, sharded),
      "bench", {});
}

struct RankTimes {
  std::vector<double> compute;    ///< seconds a step, from the first action's start to the last one's end
  std::vector<double> reduction;  ///< from there to the end of the last reduction; 0 without one
  std::vector<double> step;
};

// Trains on one rank; the first step does not count.
void train(const Job& job, transport::World& world, int steps, RankTimes& times) {
  const transport::AbortOnUnwind abort(world);
  Backend backend = make_backend(job, world.rank());
  runtime::PipelineEngine engine(*backend.device, backend.math, world,
                                 runtime::plan_pipeline(pipeline_request(job)));
  engine.rank().initialise(engine.stream());
  BatchSet set(job, job.micro_batches(), *backend.device);
  std::mt19937 random(1);
  for (HostMicroBatch& batch : set.batches()) {
    for (size_t at = 0; at < batch.tokens.size(); ++at) {
      batch.tokens[at] = static_cast<int32_t>(random() % vocabulary);
      batch.targets[at] = static_cast<int32_t>(random() % vocabulary);
      batch.positions[at] = static_cast<int32_t>(at % sequence);
    }
  }
  for (int step = 0; step <= steps; ++step) {
    engine.start_step({static_cast<uint64_t>(step), 1e-4, 1000}, set.bands());
    engine.finish_step();
    if (step == 0) continue;
    double first = 0;
    double last = 0;
    double reduced = 0;
    double begin = 0;
    double end = 0;
    for (const runtime::Stamp& stamp : engine.stamps(static_cast<uint64_t>(step))) {
      begin = begin == 0 ? stamp.start : std::min(begin, stamp.start);
      end = std::max(end, stamp.end);
      if (stamp.lane == runtime::Lane::reduction) reduced = std::max(reduced, stamp.end);
      if (stamp.instruction->kind != schedule::InstructionKind::compute) continue;
      first = first == 0 ? stamp.start : std::min(first, stamp.start);
      last = std::max(last, stamp.end);
    }
    times.compute.push_back(last - first);
    times.reduction.push_back(std::max(0.0, reduced - last));
    times.step.push_back(end - begin);
  }
}

// By world rank of the replicated run, pipeline first.
using AllTimes = std::vector<RankTimes>;

void measure_on(int pipeline, int replicas, int reduce_every, bool sharded, int steps, AllTimes& times) {
  const Job job = job_of(pipeline, replicas, reduce_every, sharded);
  transport::run_inproc(pipeline * replicas, {}, [&](transport::World& world) {
    train(job, world, steps, times[static_cast<size_t>(world.rank())]);
  });
}

void measure_off(int pipeline, int replicas, int steps, AllTimes& times) {
  const Job job = job_of(pipeline, 1, 0, false);
  std::vector<std::thread> runs;
  for (int replica = 0; replica < replicas; ++replica) {
    runs.emplace_back([&, replica] {
      transport::run_inproc(pipeline, {}, [&](transport::World& world) {
        train(job, world, steps, times[static_cast<size_t>(replica * pipeline + world.rank())]);
      });
    });
  }
  for (std::thread& run : runs) run.join();
}

void print(const std::string& what, const AllTimes& times, const AllTimes& off) {
  for (size_t rank = 0; rank < times.size(); ++rank) {
    const double compute = accounting::median(times[rank].compute);
    fmt::print(
        "{:<18} rank {}  compute {:>7.1f} ms ({:+5.1f} %)  reduction after it {:>6.1f} ms  step {:>7.1f} "
        "ms\n",
        what, rank, compute * 1e3, 100 * (compute / accounting::median(off[rank].compute) - 1),
        accounting::median(times[rank].reduction) * 1e3, accounting::median(times[rank].step) * 1e3);
  }
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  using namespace penstock;
  const int pipeline = argc > 1 ? std::atoi(argv[1]) : 1;
  const int replicas = argc > 2 ? std::atoi(argv[2]) : 2;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  if (pipeline < 1 || replicas < 2 || rounds < 1) {
    fmt::print(stderr, "usage: bench_reduction [pipeline ranks [replicas, 2 or more [rounds]]]\n");
    return 2;
  }
  constexpr int steps = 4;
  const auto ranks = static_cast<size_t>(pipeline * replicas);
  fmt::print(
      "{} replicas of {} pipeline ranks, {} micro-batches, median of {} steps; per cent: against no "
      "reduction\n",
      replicas, pipeline, micro_batches, rounds * steps);
  AllTimes off(ranks);
  AllTimes once(ranks);
  AllTimes windows(ranks);
  AllTimes sharded(ranks);
  for (int round = 0; round < rounds; ++round) {
    measure_off(pipeline, replicas, steps, off);
    measure_on(pipeline, replicas, 0, false, steps, once);
    measure_on(pipeline, replicas, 2, false, steps, windows);
    measure_on(pipeline, replicas, 0, true, steps, sharded);
  }
  print("no reduction", off, off);
  print("once a step", once, off);
  print("reduce_every = 2", windows, off);
  print("sharded optimizer", sharded, off);
  return 0;
}
