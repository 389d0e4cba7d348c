#pragma once

#include <memory>

namespace penstock {

/// What time it is for the streams of a device.
///
/// Under the real clock a task takes as long as it takes. Under the virtual one a task ends at its start plus
/// its stated cost, an event carries the time at which it was recorded, and a wait takes the maximum; nothing
/// sleeps, and the result is exact whatever the threads do. Only the clock is replaced, never executor or
/// messages.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual bool is_virtual() const = 0;
  /// Seconds (real); all real clocks of a process agree. UsageError for a virtual clock, whose time belongs
  /// to each stream.
  virtual double now() const = 0;
};

std::shared_ptr<Clock> make_real_clock();
std::shared_ptr<Clock> make_virtual_clock();

}  // namespace penstock
