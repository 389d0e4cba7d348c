#include "kernels/device/clock.h"

#include <chrono>

#include "kernels/device/error.h"

namespace penstock {
namespace {

class RealClock final : public Clock {
 public:
  bool is_virtual() const override { return false; }
  double now() const override {
    // One zero a process: ranks that are its threads read one time from clocks of their own.
    static const std::chrono::steady_clock::time_point zero = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - zero).count();
  }
};

class VirtualClock final : public Clock {
 public:
  bool is_virtual() const override { return true; }
  double now() const override {
    throw UsageError(
        "a virtual clock has no time of its own: each stream has one; use Stream::stamp or Event::seconds");
  }
};

}  // namespace

std::shared_ptr<Clock> make_real_clock() {
  return std::make_shared<RealClock>();
}
std::shared_ptr<Clock> make_virtual_clock() {
  return std::make_shared<VirtualClock>();
}

}  // namespace penstock
