#include "trainer/evaluation.h"

#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "data/data_error.h"
#include "kernels/device/error.h"
#include "trainer/elapsed.h"
#include "trainer/rank_context.h"
#include "trainer/stop_switch.h"

namespace penstock {
namespace {

// Samples of the validation file: rank 0 has it open, other ranks may not.
int64_t available_samples(transport::World& world, const Corpus& corpus) {
  std::array<int64_t, 1> samples{world.rank() == 0 && corpus.validation() != nullptr
                                     ? static_cast<int64_t>(corpus.validation()->samples_per_epoch())
                                     : -1};
  world.all_reduce(samples, transport::Reduction::maximum);
  if (samples[0] < 0) throw UsageError("an evaluation without validation data");
  return samples[0];
}

}  // namespace

bool somebody_stops(transport::World& world) {
  std::array<uint64_t, 1> stop{StopSwitch::signalled() ? uint64_t{1} : 0};
  world.all_or(stop);
  return stop[0] != 0;
}

EvaluationResult evaluate(runtime::PipelineEngine& engine, transport::World& world, Corpus& corpus,
                          const Job& job, int64_t samples) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t available = available_samples(world, corpus);
  const int64_t replicas = job.parallel.data;
  const int64_t micro_batches = std::min(samples, available) / (job.batch.micro * replicas);  // of a replica
  if (micro_batches == 0) {
    throw data::DataError(
        fmt::format("{}: has {} samples of {} tokens, but an evaluation needs one micro-batch of {} "
                    "(batch.micro) for each of {} replicas; give it more text",
                    job.data.validation, available, job.model.sequence_length, job.batch.micro, replicas));
  }
  const int64_t group = std::min(micro_batches, job.micro_batches());
  BatchSet set(job, group, engine.rank().memory().device());
  EvaluationResult result;
  double sum = 0;
  for (int64_t done = 0; done < micro_batches && !somebody_stops(world); done += group) {
    const auto count = static_cast<size_t>(std::min(group, micro_batches - done));
    for (size_t m = 0; m < count; ++m) {
      const int64_t number = (done + static_cast<int64_t>(m)) * replicas + engine.place().replica;
      corpus.read_validation(static_cast<uint64_t>(number * job.batch.micro), set.batches()[m]);
    }
    sum += engine.evaluate(set.bands(count));
    const int64_t sequences = static_cast<int64_t>(count) * job.batch.micro * replicas;
    result.samples += sequences;
    result.tokens += target_tokens_of_all(job, world, sequences, set, count, engine.place().pipeline == 0);
  }
  result.loss = result.tokens > 0 ? sum / static_cast<double>(result.tokens) : 0;
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace penstock
