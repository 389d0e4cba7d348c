#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cpu/wait_point.h"
#include "kernels/device/signal.h"

namespace penstock::cpu {

/// The counter behind a signal. Queued work shares it: a write that has just released the last waiter is
/// still busy here when that waiter's host destroys the signal.
class SignalCounter {
 public:
  SignalCounter(std::string name, bool on_virtual_clock);

  const std::string& name() const { return name_; }
  bool on_virtual_clock() const { return on_virtual_clock_; }
  uint64_t value() const { return value_.load(); }
  /// Host side, when a write is queued: UsageError unless `value` is above every value queued before.
  void promise(uint64_t value);
  /// Stream side: the write, at `seconds` on the writing stream's clock. UsageError if a larger value was
  /// written first, by another stream that nothing orders after this one.
  void write(uint64_t value, double seconds);
  /// Stream side: blocks until the counter is at least `value`; on a virtual clock returns the time of the
  /// first write that made it so, else 0.
  double wait(uint64_t value);
  /// Every wait is over, now and later.
  void release();

 private:
  static constexpr uint64_t released = UINT64_MAX;

  struct Write {
    uint64_t value;
    double seconds;
  };

  const std::string name_;
  const bool on_virtual_clock_;
  std::atomic<uint64_t> value_{0};
  WaitPoint written_;
  std::mutex mutex_;
  uint64_t promised_ = 0;
  /// Virtual clock only: every write, values and times rising; a wait may ask for any of them however late it
  /// comes.
  std::vector<Write> history_;
};

class CpuSignal final : public Signal {
 public:
  CpuSignal(std::string name, bool on_virtual_clock);

  /// The counter of a CPU signal; UsageError for another backend's signal.
  static const std::shared_ptr<SignalCounter>& counter_of(const Signal& signal);

  const std::string& name() const override { return counter_->name(); }
  uint64_t value() const override { return counter_->value(); }
  void release() override { counter_->release(); }

 private:
  std::shared_ptr<SignalCounter> counter_;
};

}  // namespace penstock::cpu
