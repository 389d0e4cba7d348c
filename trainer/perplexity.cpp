#include "trainer/perplexity.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "kernels/device/error.h"
#include "trainer/elapsed.h"
#include "trainer/evaluation.h"
#include "trainer/step_batches.h"

namespace penstock {
namespace {

class Windows {
 public:
  Windows(const EvaluationText& text, const data::Tokenizer* tokenizer, const Job& job,
          const WindowOptions& options)
      : text_(text),
        length_(job.model.sequence_length),
        stride_(options.stride),
        count_(window_count(text.tokens(), length_, options)),
        masks_(job.data.document_mask),
        tokens_(static_cast<size_t>(length_) + 1),
        starts_(static_cast<size_t>(length_)) {
    if (tokenizer == nullptr) return;
    for (const std::string& bytes : tokenizer->vocabulary().tokens)
      bytes_.push_back(static_cast<int64_t>(bytes.size()));
    for (const data::SpecialToken& special : tokenizer->vocabulary().special)
      if (special.special) bytes_[static_cast<size_t>(special.id)] = 0;
  }

  int64_t count() const { return count_; }
  int64_t counted_tokens() const { return counted_; }
  int64_t counted_bytes() const { return counted_bytes_; }

  /// Window `number` into row `row` of the batch; one that is not there has no targets. `reads`: this rank
  /// has the text.
  void fill(int64_t number, HostMicroBatch& batch, size_t row, bool reads) {
    const auto length = static_cast<size_t>(length_);
    const auto part = [&](std::span<int32_t> values) { return values.subspan(row * length, length); };
    const std::span<int32_t> tokens = part(batch.tokens);
    const std::span<int32_t> targets = part(batch.targets);
    const std::span<int32_t> positions = part(batch.positions);
    const std::span<int32_t> starts = part(batch.starts);
    batch.samples[row] = number;
    std::fill(tokens.begin(), tokens.end(), 0);
    std::fill(targets.begin(), targets.end(), -1);
    std::fill(starts.begin(), starts.end(), 0);
    std::iota(positions.begin(), positions.end(), 0);
    if (number >= count_ || !reads) return;
    const int64_t first = number * stride_;
    const auto there = static_cast<size_t>(std::min(length_ + 1, text_.tokens() - first));
    text_.read(first, std::span(tokens_).first(there));
    const size_t inputs = std::min(there, length);
    std::copy_n(tokens_.begin(), inputs, tokens.begin());
    std::copy_n(tokens_.begin() + 1, there - 1, targets.begin());
    if (masks_) {
      const size_t documents = text_.document_starts(first, std::span(starts_).first(inputs));
      mask_documents(std::span(starts_).first(documents), positions, starts, targets);
    }
    if (number > 0) std::fill_n(targets.begin(), length_ - stride_, -1);
    for (const int32_t target : targets) {
      if (target < 0) continue;
      ++counted_;
      if (static_cast<size_t>(target) < bytes_.size()) counted_bytes_ += bytes_[static_cast<size_t>(target)];
    }
  }

 private:
  const EvaluationText& text_;
  const int64_t length_;
  const int64_t stride_;
  const int64_t count_;
  const bool masks_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> starts_;
  std::vector<int64_t> bytes_;  ///< by token
  int64_t counted_ = 0;
  int64_t counted_bytes_ = 0;
};

}  // namespace

std::optional<double> Perplexity::bits_per_byte() const {
  if (!bytes || *bytes == 0) return std::nullopt;
  return nats / std::numbers::ln2 / static_cast<double>(*bytes);
}

int64_t window_count(int64_t tokens, int64_t sequence_length, const WindowOptions& options) {
  if (options.stride < 1 || options.stride > sequence_length)
    throw UsageError("the stride of windows is 1 to sequence_length");
  const int64_t beyond = std::max<int64_t>(0, tokens - 1 - sequence_length);
  const int64_t all = 1 + (beyond + options.stride - 1) / options.stride;
  return std::min(all, options.most.value_or(all));
}

Perplexity measure_perplexity(runtime::PipelineEngine& engine, transport::World& world,
                              const EvaluationText& text, const data::Tokenizer* tokenizer, const Job& job,
                              const WindowOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Windows windows(text, tokenizer, job, options);
  const int64_t replicas = job.parallel.data;
  const int64_t micro = job.batch.micro;
  const int64_t micro_batches =
      (windows.count() + micro * replicas - 1) / (micro * replicas);  // of a replica
  const int64_t group = std::min(micro_batches, engine.rank().config().micro_batches);
  const bool reads =
      job.data.document_mask || engine.holds_first() || engine.holds_last() || world.rank() == 0;
  BatchSet set(job, group, engine.rank().memory().device());
  Perplexity result;
  for (int64_t done = 0; done < micro_batches && !somebody_stops(world); done += group) {
    const auto count = static_cast<size_t>(std::min(group, micro_batches - done));
    for (size_t m = 0; m < count; ++m) {
      const int64_t batch = (done + static_cast<int64_t>(m)) * replicas + engine.place().replica;
      for (int64_t row = 0; row < micro; ++row)
        windows.fill(batch * micro + row, set.batches()[m], static_cast<size_t>(row), reads);
    }
    result.nats += engine.evaluate(set.bands(count));
    result.windows = std::min(windows.count(), (done + static_cast<int64_t>(count)) * micro * replicas);
  }
  // The rank of each replica's first stage has counted what its windows have.
  const bool counts = engine.owns(0);
  std::array<int64_t, 2> counted{counts ? windows.counted_tokens() : 0, counts ? windows.counted_bytes() : 0};
  world.all_reduce(counted, transport::Reduction::sum);
  result.tokens = counted[0];
  if (tokenizer != nullptr) result.bytes = counted[1];
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace penstock
