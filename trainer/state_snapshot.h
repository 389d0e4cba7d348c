#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/device/device.h"
#include "trainer/checkpoint/checkpoint_writer.h"

namespace penstock {

/// A copy in host memory of what a rank saves, taken on a stream of its own beside the next step.
class StateSnapshot {
 public:
  explicit StateSnapshot(Device& device);

  /// Host memory that a copy of `sources` takes: each at a multiple of alignment_bytes, as they lie in a
  /// unit's buffers, so that neighbours are copied as one.
  static size_t bytes(const std::vector<checkpoint::Source>& sources);

  /// Holds memory for that many bytes from now on, instead of what it held. No copy may be in use.
  /// DeviceError with the numbers if memory is short.
  void reserve(size_t bytes);
  size_t reserved() const { return memory_ ? memory_->bytes() : 0; }

  /// Enqueues a copy of `sources` behind what `stream` has to do, and makes them point to it. Returns at
  /// once; the copy is there after wait(). The event is recorded behind it: what changes the originals waits
  /// for that. UsageError if less memory is reserved.
  const Event& take(std::vector<checkpoint::Source>& sources, Stream& stream);
  /// Blocks until the copy is there. Any thread, one at a time. DeviceError if copying failed.
  void wait() { stream_->synchronize(); }
  /// The same beside another thread that waits, without its errors.
  void wait_for_copy() const { copied_->synchronize(); }

 private:
  Device& device_;
  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<Event> ready_;  ///< what is copied is as it should be
  std::unique_ptr<Event> copied_;
  std::unique_ptr<Stream> stream_;  ///< ends before what it uses
};

}  // namespace penstock
