#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cpu/wait_point.h"
#include "kernels/device/signal.h"

namespace penstock::cpu {

class CpuSignal final : public Signal {
 public:
  CpuSignal(std::string name, bool on_virtual_clock);

  /// The CPU's own type; UsageError for another backend's signal.
  static CpuSignal& of(Signal& signal);
  static const CpuSignal& of(const Signal& signal);

  const std::string& name() const override { return name_; }
  uint64_t value() const override { return value_.load(); }

  bool on_virtual_clock() const { return on_virtual_clock_; }
  /// Host side, when a write is queued: UsageError unless `value` is above every value queued before.
  void promise(uint64_t value);
  /// Stream side: the write, at `seconds` on the writing stream's clock. UsageError if a larger value was
  /// written first, by another stream that nothing orders after this one.
  void write(uint64_t value, double seconds);
  /// Stream side: blocks until the signal is at least `value`; on a virtual clock returns the time of the
  /// first write that made it so, else 0.
  double wait(uint64_t value) const;

 private:
  struct Write {
    uint64_t value;
    double seconds;
  };

  std::string name_;
  bool on_virtual_clock_;
  std::atomic<uint64_t> value_{0};
  mutable WaitPoint written_;
  mutable std::mutex mutex_;
  uint64_t promised_ = 0;
  /// Virtual clock only: every write, values and times rising; a wait may ask for any of them however late it
  /// comes.
  std::vector<Write> history_;
};

}  // namespace penstock::cpu
