#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "kernels/device/signal.h"

namespace penstock::cuda {

/// Where a signal's value lies: pinned memory of the host, written and polled by the streams of every GPU of
/// the process. A cell lives on after its signal for the work that still names it, and serves another signal
/// later, which counts on from the last value.
struct SignalCell {
  uint64_t* value = nullptr;
  uint64_t promised = 0;  ///< the largest value of which a write was queued
};

class CudaSignal final : public Signal {
 public:
  CudaSignal(std::string name, int rank);
  ~CudaSignal() override;
  CudaSignal(const CudaSignal&) = delete;
  CudaSignal& operator=(const CudaSignal&) = delete;

  /// CUDA's own type; UsageError for another backend's signal.
  static CudaSignal& of(Signal& signal);
  static const CudaSignal& of(const Signal& signal);

  const std::string& name() const override { return name_; }
  uint64_t value() const override;
  void release() override;

  /// Before a write of `value` is queued: UsageError unless it is above every value queued before.
  void promise(uint64_t value);
  uint64_t* cell() const { return cell_.value; }
  /// As the cell counts.
  uint64_t in_cell(uint64_t value) const { return base_ + value; }

 private:
  const std::string name_;
  SignalCell cell_;
  uint64_t base_ = 0;
  std::atomic<bool> released_{false};
  std::mutex mutex_;  ///< guards cell_.promised
};

}  // namespace penstock::cuda
