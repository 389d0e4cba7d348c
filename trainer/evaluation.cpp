#include "trainer/evaluation.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "data/data_error.h"
#include "kernels/device/error.h"
#include "trainer/stop_switch.h"

namespace penstock {

EvaluationResult evaluate(runtime::LocalEngine& engine, Corpus& corpus, const Job& job, int64_t samples) {
  if (corpus.validation() == nullptr) throw UsageError("an evaluation without validation data");
  const auto start = std::chrono::steady_clock::now();
  const auto available = static_cast<int64_t>(corpus.validation()->samples_per_epoch());
  const int64_t micro_batches = std::min(samples, available) / job.batch.micro;
  if (micro_batches == 0) {
    throw data::DataError(
        fmt::format("{}: has {} samples of {} tokens, but an evaluation needs one micro-batch of {} "
                    "(batch.micro); give it more text",
                    job.data.validation, available, job.model.sequence_length, job.batch.micro));
  }
  const int64_t group = std::min(micro_batches, engine.rank().config().micro_batches);
  BatchSet set(job, group);
  EvaluationResult result;
  double sum = 0;
  for (int64_t done = 0; done < micro_batches && !StopSwitch::signalled(); done += group) {
    const auto count = static_cast<size_t>(std::min(group, micro_batches - done));
    for (size_t m = 0; m < count; ++m) {
      corpus.read_validation(static_cast<uint64_t>(result.samples), set.batches()[m]);
      result.samples += job.batch.micro;
    }
    sum += engine.evaluate(set.bands(count));
    result.tokens += set.target_tokens(count);
  }
  result.loss = result.tokens > 0 ? sum / static_cast<double>(result.tokens) : 0;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace penstock
