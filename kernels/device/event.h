#pragma once

#include <string>

namespace penstock {

/// A point in a stream's work, with CUDA's exact semantics. Stream::record captures the work enqueued on that
/// stream so far; recording again replaces what was captured, and a wait that was enqueued earlier still
/// waits for what it captured. Stream::wait captures the most recent record at the time of the call. An event
/// that was never recorded counts as complete; in test modes (DeviceOptions::strict_events) waiting for one
/// is a UsageError. Destroying an event with work pending is allowed.
class Event {
 public:
  virtual ~Event() = default;
  virtual const std::string& name() const = 0;
  /// Whether the captured work is complete (true if never recorded). Does not block.
  virtual bool query() const = 0;
  /// Blocks the calling host thread until the captured work is complete. Never called inside a step.
  virtual void synchronize() const = 0;
  /// Time on the stream's clock (seconds) at which the captured work completed. UsageError if it did
  /// not complete yet, or if the event was never recorded.
  virtual double seconds() const = 0;
};

}  // namespace penstock
