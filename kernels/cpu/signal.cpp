#include "kernels/cpu/signal.h"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::cpu {

SignalCounter::SignalCounter(std::string name, bool on_virtual_clock)
    : name_(std::move(name)), on_virtual_clock_(on_virtual_clock) {
  constexpr size_t first_writes = 1024;
  if (on_virtual_clock_) history_.reserve(first_writes);
}

void SignalCounter::promise(uint64_t value) {
  const std::lock_guard lock(mutex_);
  if (value <= promised_) {
    throw UsageError(
        fmt::format("signal \"{}\": a write of {} was queued after a write of {}; values must rise", name_,
                    value, promised_));
  }
  promised_ = value;
}

void SignalCounter::write(uint64_t value, double seconds) {
  {
    const std::lock_guard lock(mutex_);
    const uint64_t current = value_.load();
    if (current == released) return;
    if (value <= current) {
      throw UsageError(fmt::format(
          "signal \"{}\": {} was written when it already stood at {}; two streams write it and nothing "
          "orders them",
          name_, value, current));
    }
    if (on_virtual_clock_) history_.push_back({value, seconds});
    value_.store(value);
  }
  written_.notify_all();
}

double SignalCounter::wait(uint64_t value) {
  written_.wait([&] { return value_.load() >= value; });
  if (!on_virtual_clock_ || value == 0) return 0;
  const std::lock_guard lock(mutex_);
  const auto first =
      std::lower_bound(history_.begin(), history_.end(), value,
                       [](const Write& write, uint64_t wanted) { return write.value < wanted; });
  return first == history_.end() ? 0 : first->seconds;  // released
}

void SignalCounter::release() {
  {
    const std::lock_guard lock(mutex_);
    value_.store(released);
  }
  written_.notify_all();
}

CpuSignal::CpuSignal(std::string name, bool on_virtual_clock)
    : counter_(std::make_shared<SignalCounter>(std::move(name), on_virtual_clock)) {}

const std::shared_ptr<SignalCounter>& CpuSignal::counter_of(const Signal& signal) {
  if (typeid(signal) != typeid(CpuSignal)) {
    throw UsageError(fmt::format(
        "signal \"{}\" belongs to another kind of device; a CPU stream takes signals made by a CPU device",
        signal.name()));
  }
  return static_cast<const CpuSignal&>(signal).counter_;
}

}  // namespace penstock::cpu
