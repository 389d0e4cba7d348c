#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "kernels/cpu/fibers.h"

namespace penstock::cpu {

/// A place where threads wait for a condition that other threads make true: they spin for a few microseconds
/// (a hand-over between busy workers costs no system call), then sleep (an idle worker costs no core).
/// Fibers let others run.
///
/// The condition must read, and whoever makes it true must write, atomics with sequentially consistent order:
/// that is what makes the check of `sleepers_` in notify_all() sufficient.
class WaitPoint {
 public:
  template <class Ready>
  void wait(Ready ready) {
    if (Fibers* const fibers = Fibers::current()) {
      if (!ready()) fibers->wait([](void* context) { return (*static_cast<Ready*>(context))(); }, &ready);
      return;
    }
    for (int spin = 0; spin < spins; ++spin) {
      if (ready()) return;
      pause();
    }
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    while (!ready()) changed_.wait(lock);
    sleepers_.fetch_sub(1);
  }

  /// Call after the condition became true. The caller keeps this object alive until the call returns.
  void notify_all() {
    if (sleepers_.load() == 0) return;
    // A waiter that found the condition false holds the mutex until it sleeps; passing through it loses no
    // wake-up.
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

 private:
  static constexpr int spins = 300;  // pauses: about 5 microseconds

  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> sleepers_{0};
};

}  // namespace penstock::cpu
