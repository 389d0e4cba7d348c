#include "kernels/cuda/runtime/stamp_clock.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/runtime/pinned_memory.h"
#include "kernels/cuda/stamp_kernels.h"
#include "kernels/device/error.h"

namespace penstock::cuda {
namespace {

constexpr double nanosecond = 1e-9;
constexpr double seconds_between_alignments = 10;

/// What the GPU has written; 0: nothing yet. Empties the cell.
uint64_t take(uint64_t& cell) {
  const std::atomic_ref<uint64_t> value(cell);
  const uint64_t found = value.load(std::memory_order_acquire);
  if (found != 0) value.store(0, std::memory_order_relaxed);
  return found;
}

}  // namespace

StampClock::StampClock(int gpu, std::shared_ptr<Clock> clock)
    : gpu_(gpu),
      clock_(std::move(clock)),
      cell_(reserve_pinned_memory("the clock of the GPU", sizeof(uint64_t)), sizeof(uint64_t),
            release_pinned_memory) {
  use_gpu(gpu_);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
        [&] { return fmt::format("GPU {}: making the stream of its clock", gpu_); });
  check(cudaEventCreate(&base_), [&] { return fmt::format("GPU {}: making the event of its clock", gpu_); });
  align();
}

StampClock::~StampClock() {
  report(cudaEventDestroy(base_), [] { return "destroying the event of a clock"; });
  report(cudaStreamDestroy(stream_), [] { return "destroying the stream of a clock"; });
}

void StampClock::align() {
  const auto doing = [&] { return fmt::format("GPU {}: reading its clock", gpu_); };
  constexpr int rounds = 5;
  double shortest = std::numeric_limits<double>::infinity();
  double offset = 0;
  double middle = 0;
  const std::lock_guard lock(alignment_);
  for (int round = 0; round < rounds; ++round) {
    const double before = clock_->now();
    write_time(stream_, cell_.as<uint64_t>());
    check(cudaEventRecord(base_, stream_), doing);
    check(cudaStreamSynchronize(stream_), doing);
    const double after = clock_->now();
    const auto gpu = static_cast<double>(take(*cell_.as<uint64_t>())) * nanosecond;
    middle = gpu;
    if (after - before >= shortest) continue;
    shortest = after - before;
    offset = (before + after) / 2 - gpu;
  }
  offset_seconds_ = offset;
  base_seconds_ = middle + offset;
  aligned_at_ = clock_->now();
}

void StampClock::keep_aligned() {
  {
    const std::lock_guard lock(alignment_);
    if (clock_->now() - aligned_at_ < seconds_between_alignments) return;
  }
  align();
}

double StampClock::seconds(uint64_t nanoseconds) const {
  const std::lock_guard lock(alignment_);
  return static_cast<double>(nanoseconds) * nanosecond + offset_seconds_;
}

double StampClock::seconds(cudaEvent_t event) const {
  const std::lock_guard lock(alignment_);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, base_, event),
        [&] { return fmt::format("GPU {}: reading the time of an event", gpu_); });
  return base_seconds_ + 1e-3 * static_cast<double>(milliseconds);
}

void StampClock::resolve() {
  const std::lock_guard lock(rings_mutex_);
  for (StampRing* ring : rings_) ring->resolve();
}

StampRing::StampRing(StampClock& clock, size_t places)
    : clock_(clock),
      cells_(reserve_pinned_memory("stamps of a stream", places * sizeof(uint64_t)),
             places * sizeof(uint64_t), release_pinned_memory),
      targets_(places) {
  const std::lock_guard lock(clock_.rings_mutex_);
  clock_.rings_.push_back(this);
}

StampRing::~StampRing() {
  const std::lock_guard lock(clock_.rings_mutex_);
  std::erase(clock_.rings_, this);
}

void StampRing::stamp(StreamHandle stream, double* seconds) {
  const std::lock_guard lock(mutex_);
  if (end_ - begin_ == targets_.size()) {
    resolve_locked();
    if (end_ - begin_ == targets_.size())
      throw UsageError(
          fmt::format("{} stamps of a stream are on their way; there is room for no more", targets_.size()));
  }
  const size_t place = end_ % targets_.size();
  write_time(stream, cells_.as<uint64_t>() + place);
  targets_[place] = seconds;
  ++end_;
}

void StampRing::resolve() {
  const std::lock_guard lock(mutex_);
  resolve_locked();
}

void StampRing::resolve_locked() {
  for (; begin_ != end_; ++begin_) {
    const size_t place = begin_ % targets_.size();
    const uint64_t nanoseconds = take(cells_.as<uint64_t>()[place]);
    if (nanoseconds == 0) return;
    latest_ = std::max(latest_, clock_.seconds(nanoseconds));
    *targets_[place] = latest_;
  }
}

}  // namespace penstock::cuda
