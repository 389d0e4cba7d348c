#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device/device.h"
#include "model/boundary.h"
#include "trainer/corpus.h"
#include "trainer/job/job.h"

namespace penstock {

/// Micro-batches in host memory that `device` reads without holding up the host, with the views that the
/// engine takes.
class BatchSet {
 public:
  BatchSet(const Job& job, int64_t micro_batches, Device& device);

  std::span<HostMicroBatch> batches() { return batches_; }
  /// The first `count` micro-batches; valid as long as this object.
  std::span<const model::SideBand> bands(size_t count) const { return std::span(bands_).first(count); }
  std::span<const model::SideBand> bands() const { return bands_; }
  /// Targets that are not −1, over the first `count` micro-batches.
  int64_t target_tokens(size_t count) const;

 private:
  std::unique_ptr<HostMemory> memory_;
  std::vector<HostMicroBatch> batches_;
  std::vector<model::SideBand> bands_;
};

/// One replica's training data, read one step ahead of the device, or of the second step where two overlap.
/// Step k of D replicas takes samples k·global … (k+1)·global − 1: replica d the d-th run of global/D of
/// them, its micro-batch m the m-th run of `micro` in that.
class StepBatches {
 public:
  StepBatches(const Job& job, Corpus& corpus, int replica, Device& device);

  /// The batches of `step`, read now unless they were read before (while the device worked on another step);
  /// valid until as many other steps were read as sets are kept.
  BatchSet& of(int64_t step);
  /// Whether of() has nothing left to read.
  bool was_read(int64_t step) const { return entries_[place(step)].step == step; }
  /// Sets that are kept: of the steps under way, and of the one that is read.
  static int64_t sets(const Job& job);
  /// What was read ahead is read again, in micro-batches of the job's present size.
  void begin_anew(const Job& job, Device& device);
  /// What was read ahead is read again: other samples come next.
  void forget();
  /// The first and the last sample of a replica's micro-batch, numbered as if none were skipped.
  std::array<uint64_t, 2> samples(int64_t step, int replica, int64_t micro_batch) const;

 private:
  int64_t first_sample(int64_t step, int replica, int64_t micro_batch) const;
  size_t place(int64_t step) const { return static_cast<size_t>(step) % entries_.size(); }
  struct Entry {
    BatchSet set;
    int64_t step = -1;
  };
  Corpus& corpus_;
  int64_t global_;
  int64_t micro_;
  int64_t replicas_;
  int replica_;
  std::vector<Entry> entries_;
};

}  // namespace penstock
