#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "kernels/device/event.h"
#include "kernels/device/signal.h"

namespace penstock {

/// An in-order queue of device work. Calls return as soon as the work is queued, or as soon as there is room:
/// a stream bounds how far its host runs ahead. Kernels take a Stream& first. One host thread at a time.
///
/// The first exception thrown by queued work is kept, and the work behind it is dropped, waits included
/// (CUDA: host tasks only); events and signals of dropped work still complete, so that nobody hangs. The
/// exception surfaces once, as a DeviceError that names the task, the stream and the rank, at the next
/// enqueue or synchronize. That call queues nothing, and leaves the stream empty and usable again. Destroying
/// a stream runs what is queued; an error that did not surface before is then printed to stderr.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual const std::string& name() const = 0;

  virtual void record(Event& event) = 0;
  virtual void wait(const Event& event) = 0;
  /// Writes `value` when the work queued so far is done. UsageError if it is not above the last value queued
  /// for the signal. Streams that write the same signal must be ordered by events or signals.
  virtual void signal(Signal& signal, uint64_t value) = 0;
  /// Work queued after this starts once the signal is at least `value`. In virtual time it starts no earlier
  /// than the first write that made it so. UsageError for inline streams if the signal is not there yet.
  virtual void wait(const Signal& signal, uint64_t value) = 0;

  /// dst and src: device or pinned host memory of this device, not overlapping.
  virtual void copy(void* dst, const void* src, size_t bytes) = 0;
  virtual void fill_zero(void* dst, size_t bytes) = 0;
  /// Runs `task` on a host thread in stream order (CUDA: a host function, so it must not call the device).
  /// `name` must outlive the work (a literal). `cost` is its duration in seconds on a virtual clock. May
  /// allocate: not for kernels.
  virtual void host_task(const char* name, double cost, std::function<void()> task) = 0;
  /// Writes the stream's time (seconds on its clock), as it is in stream order, to *seconds, which outlives
  /// the work. CUDA: it is there once the host has waited for work behind it.
  virtual void stamp(double* seconds) = 0;

  /// Blocks until everything queued is done. Never called inside a step.
  virtual void synchronize() = 0;
};

}  // namespace penstock
