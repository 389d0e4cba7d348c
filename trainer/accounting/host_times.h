#pragma once

#include <array>
#include <cstddef>

#include "kernels/device/clock.h"
#include "trainer/accounting/rank_times.h"

namespace penstock::accounting {

/// What the host was doing lately, as it says itself: the last few times that it read data, evaluated or
/// saved. One thread; a real clock.
class HostTimes {
 public:
  explicit HostTimes(const Clock& clock) : clock_(clock) {}

  /// From its construction to its end the host does `part`.
  class Doing {
   public:
    Doing(HostTimes& times, Part part) : times_(times), part_(part), begin_(times.clock_.now()) {}
    ~Doing() { times_.keep({part_, begin_, times_.clock_.now()}); }
    Doing(const Doing&) = delete;
    Doing& operator=(const Doing&) = delete;

   private:
    HostTimes& times_;
    Part part_;
    double begin_;
  };

  /// On this host's clock, in no particular order.
  const std::array<HostInterval, RankTimes::kept_intervals>& lately() const { return lately_; }

 private:
  void keep(const HostInterval& interval) { lately_[next_++ % lately_.size()] = interval; }

  const Clock& clock_;
  std::array<HostInterval, RankTimes::kept_intervals> lately_{};
  size_t next_ = 0;
};

}  // namespace penstock::accounting
