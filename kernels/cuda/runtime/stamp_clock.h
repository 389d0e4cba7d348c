#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/cuda/stream_handle.h"
#include "kernels/device/clock.h"
#include "kernels/device/host_memory.h"

namespace penstock::cuda {

class StampRing;

/// The time of a GPU's streams, in the seconds of the host's clock.
///
/// A stamp is one thread of a kernel that writes the GPU's clock to pinned memory, and not an event: events
/// tell only the difference to another event, as an fp32 number of milliseconds, which after an hour of
/// training is 0.25 ms coarse; this is 64 bits of nanoseconds, costs one launch, and is read without a call
/// into CUDA. The stamp reaches the caller's memory when the host has waited for any work of this GPU that is
/// behind it.
class StampClock {
 public:
  StampClock(int gpu, std::shared_ptr<Clock> clock);
  ~StampClock();
  StampClock(const StampClock&) = delete;
  StampClock& operator=(const StampClock&) = delete;

  /// Hands out the stamps that have been written.
  void resolve();
  /// Measures the offset between the two clocks again if the last time is some seconds ago: no two crystals
  /// agree for long. Called where the host has waited anyway.
  void keep_aligned();
  /// Of a GPU time.
  double seconds(uint64_t nanoseconds) const;
  /// Of an event's completion, from the latest alignment: good to 2⁻²⁴ of the time since.
  double seconds(cudaEvent_t event) const;

 private:
  friend class StampRing;

  void align();

  const int gpu_;
  const std::shared_ptr<Clock> clock_;
  cudaStream_t stream_ = nullptr;
  HostMemory cell_;
  mutable std::mutex alignment_;  ///< guards the next four
  cudaEvent_t base_ = nullptr;
  double base_seconds_ = 0;
  double offset_seconds_ = 0;  ///< host − GPU
  double aligned_at_ = 0;

  std::mutex rings_mutex_;
  std::vector<StampRing*> rings_;
};

/// The stamps of one stream on their way.
class StampRing {
 public:
  /// `places`: more than the stamps that can be in flight at once.
  StampRing(StampClock& clock, size_t places);
  ~StampRing();
  StampRing(const StampRing&) = delete;
  StampRing& operator=(const StampRing&) = delete;

  void stamp(StreamHandle stream, double* seconds);
  /// Hands out what has been written, in order.
  void resolve();

 private:
  void resolve_locked();

  StampClock& clock_;
  HostMemory cells_;
  std::mutex mutex_;
  std::vector<double*> targets_;
  size_t begin_ = 0;  ///< oldest stamp not handed out; counts all stamps, as end_
  size_t end_ = 0;
  double latest_ = 0;  ///< an alignment must not turn time back
};

}  // namespace penstock::cuda
