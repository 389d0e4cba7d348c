#pragma once

#include <functional>
#include <memory>

#include "kernels/device/stream.h"

namespace penstock {

/// Work of one stream that was queued once, and can be queued again as one.
class WorkGraph {
 public:
  virtual ~WorkGraph() = default;
  /// The same kernels and copies with the same arguments, behind what is on the stream.
  virtual void launch(Stream& stream) = 0;
};

/// What a Device is, too, if its kind can do that (dynamic_cast).
class WorkGraphs {
 public:
  virtual ~WorkGraphs() = default;
  /// What `queue` queues on `stream`, which it does not run yet. DeviceError if it queues, or waits for,
  /// anything that cannot be part of a graph: events, signals, stamps, host tasks, another stream.
  virtual std::unique_ptr<WorkGraph> capture(Stream& stream, const std::function<void()>& queue) = 0;
};

}  // namespace penstock
