#include "trainer/step_batches.h"

#include <algorithm>

namespace penstock {

BatchSet::BatchSet(const Job& job, int64_t micro_batches) {
  batches_.reserve(static_cast<size_t>(micro_batches));
  for (int64_t m = 0; m < micro_batches; ++m) {
    HostMicroBatch& host = batches_.emplace_back(job.batch.micro, job.model.sequence_length);
    const Shape rows{static_cast<int64_t>(host.tokens.size())};
    model::SideBand band;
    band.tokens = Tensor(host.tokens.data(), DType::i32, rows);
    band.targets = Tensor(host.targets.data(), DType::i32, rows);
    band.positions = Tensor(host.positions.data(), DType::i32, rows);
    if (job.data.document_mask) band.starts = Tensor(host.starts.data(), DType::i32, rows);
    band.samples = Tensor(host.samples.data(), DType::i64, Shape{job.batch.micro});
    bands_.push_back(band);
  }
}

int64_t BatchSet::target_tokens(size_t count) const {
  int64_t tokens = 0;
  for (size_t m = 0; m < count; ++m) {
    const auto& targets = batches_[m].targets;
    tokens += static_cast<int64_t>(targets.size()) - std::count(targets.begin(), targets.end(), -1);
  }
  return tokens;
}

StepBatches::StepBatches(const Job& job, Corpus& corpus, int replica)
    : corpus_(corpus),
      global_(job.batch.global),
      micro_(job.batch.micro),
      replicas_(job.parallel.data),
      replica_(replica),
      entries_{{{BatchSet(job, job.micro_batches())}, {BatchSet(job, job.micro_batches())}}} {}

int64_t StepBatches::first_sample(int64_t step, int replica, int64_t micro_batch) const {
  return step * global_ + replica * (global_ / replicas_) + micro_batch * micro_;
}

BatchSet& StepBatches::of(int64_t step) {
  Entry& entry = entries_[static_cast<size_t>(step % 2)];
  if (entry.step != step) {
    int64_t micro_batch = 0;
    for (HostMicroBatch& batch : entry.set.batches()) {
      corpus_.read_train(static_cast<uint64_t>(first_sample(step, replica_, micro_batch++)), batch);
    }
    entry.step = step;
  }
  return entry.set;
}

}  // namespace penstock
