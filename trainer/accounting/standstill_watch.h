#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "kernels/device/clock.h"
#include "trainer/accounting/rank_times.h"

namespace penstock::accounting {

/// Notices when the process did not run: a thread that wakes every 20 ms, and keeps the times when it woke
/// more than 60 ms late. Nothing else can tell a process that was stopped, starved of processors or swapped
/// out from one whose messages are slow. It costs some microseconds a second.
class StandstillWatch {
 public:
  /// `clock` is real, and outlives it.
  explicit StandstillWatch(const Clock& clock);
  ~StandstillWatch();
  StandstillWatch(const StandstillWatch&) = delete;
  StandstillWatch& operator=(const StandstillWatch&) = delete;

  using Intervals = std::array<Interval, RankTimes::kept_standstills>;
  /// The last few, on the clock, in no particular order; one that the thread has not woken from yet included.
  Intervals lately() const;

 private:
  static constexpr std::chrono::milliseconds period{20};
  static constexpr double late = 0.06;  ///< seconds

  void run();
  /// From when the thread should have woken until now; empty: it is not late.
  Interval since_last(double now) const;
  void keep(const Interval& interval, Intervals& kept, size_t& next) const;

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  double woken_ = 0;
  Intervals kept_{};
  size_t next_ = 0;
  std::thread thread_;
};

}  // namespace penstock::accounting
