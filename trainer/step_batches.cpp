#include "trainer/step_batches.h"

#include <algorithm>

#include "parallel/schedule/catalogue.h"

namespace penstock {

BatchSet::BatchSet(const Job& job, int64_t micro_batches, Device& device) {
  const auto sequences = static_cast<size_t>(job.batch.micro);
  const size_t tokens = sequences * static_cast<size_t>(job.model.sequence_length);
  const size_t bytes = 4 * tokens * sizeof(int32_t) + sequences * sizeof(int64_t);
  memory_ = device.create_host_memory("micro-batches", static_cast<size_t>(micro_batches) * bytes);
  const Shape rows{static_cast<int64_t>(tokens)};
  batches_.reserve(static_cast<size_t>(micro_batches));
  for (size_t m = 0; m < static_cast<size_t>(micro_batches); ++m) {
    char* const begin = memory_->as<char>() + m * bytes;
    const auto row = [&](size_t index) {
      return std::span(reinterpret_cast<int32_t*>(begin) + index * tokens, tokens);
    };
    HostMicroBatch& host = batches_.emplace_back();
    host = {row(0), row(1), row(2), row(3), {reinterpret_cast<int64_t*>(row(4).data()), sequences}};
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

StepBatches::StepBatches(const Job& job, Corpus& corpus, int replica, Device& device)
    : corpus_(corpus),
      global_(job.batch.global),
      micro_(job.batch.micro),
      replicas_(job.parallel.data),
      replica_(replica) {
  for (int64_t set = 0; set < sets(job); ++set)
    entries_.push_back({BatchSet(job, job.micro_batches(), device), -1});
}

int64_t StepBatches::sets(const Job& job) {
  return 1 + schedule::versions_of(job.parallel.schedule);
}

int64_t StepBatches::first_sample(int64_t step, int replica, int64_t micro_batch) const {
  return step * global_ + replica * (global_ / replicas_) + micro_batch * micro_;
}

std::array<uint64_t, 2> StepBatches::samples(int64_t step, int replica, int64_t micro_batch) const {
  const auto first = static_cast<uint64_t>(first_sample(step, replica, micro_batch));
  const data::SkippedSamples& skipped = corpus_.skipped();
  return {skipped.unskipped(first), skipped.unskipped(first + static_cast<uint64_t>(micro_) - 1)};
}

void StepBatches::begin_anew(const Job& job, Device& device) {
  micro_ = job.batch.micro;
  for (Entry& entry : entries_) entry = {BatchSet(job, job.micro_batches(), device), -1};
}

void StepBatches::forget() {
  for (Entry& entry : entries_) entry.step = -1;
}

BatchSet& StepBatches::of(int64_t step) {
  Entry& entry = entries_[place(step)];
  if (!was_read(step)) {
    int64_t micro_batch = 0;
    for (HostMicroBatch& batch : entry.set.batches()) {
      corpus_.read_train(static_cast<uint64_t>(first_sample(step, replica_, micro_batch++)), batch);
    }
    entry.step = step;
  }
  return entry.set;
}

}  // namespace penstock
