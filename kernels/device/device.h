#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/device/arena.h"
#include "kernels/device/clock.h"
#include "kernels/device/event.h"
#include "kernels/device/host_memory.h"
#include "kernels/device/signal.h"
#include "kernels/device/stream.h"

namespace penstock {

enum class DeviceKind : uint8_t { cpu, cuda };

/// How streams run their work.
/// queued: a worker thread each (CUDA: streams). inline_now: at enqueue, in the calling thread (debugging; no
/// signals may be waited for before they are written). shuffled: as queued, with random delays within the
/// legal order (tests).
enum class StreamMode : uint8_t { queued, inline_now, shuffled };

struct DeviceOptions {
  int rank = 0;     ///< named in every error
  int index = 0;    ///< which device of its kind
  int threads = 1;  ///< CPU: compute threads of a compute stream
  StreamMode mode = StreamMode::queued;
  uint64_t shuffle_seed = 1;     ///< shuffled: the delays
  bool strict_events = false;    ///< waiting for an event never recorded is an error
  std::shared_ptr<Clock> clock;  ///< real when absent
};

/// Whether a stream computes (owns `threads` compute threads) or only moves data and waits (owns none).
enum class StreamUse : uint8_t { compute, transfer };

/// One accelerator, or the processor. Everything made by a device must be destroyed before it.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual const DeviceOptions& options() const = 0;
  /// "AMD EPYC … (2 threads)".
  virtual std::string description() const = 0;

  /// Reserves and touches `capacity` bytes (0 is allowed). One arena a tag: DeviceError if the tag has one,
  /// or with the numbers if memory is short.
  virtual Arena& create_arena(ArenaTag tag, size_t capacity) = 0;
  /// UsageError if the tag has no arena.
  virtual Arena& arena(ArenaTag tag) = 0;
  virtual bool has_arena(ArenaTag tag) const = 0;
  /// Gives the tag's arena back.
  virtual void destroy_arena(ArenaTag tag) = 0;
  /// Gives back an arena of this device, also one that was set aside.
  virtual void destroy_arena(const Arena& arena) = 0;
  /// Every tag has no arena any more, and can have another one: what replaces a layout is built beside it,
  /// while that one's memory stays as it is. UsageError if arenas are set aside already.
  virtual void set_arenas_aside() = 0;
  /// Those that were set aside, and were not destroyed, are their tags' again: what was to replace them did
  /// not come about. DeviceError if a tag has another one.
  virtual void bring_arenas_back() = 0;

  /// `bytes` bytes of the host for copies; `name` is for errors. DeviceError with the numbers if memory is
  /// short.
  virtual std::unique_ptr<HostMemory> create_host_memory(std::string_view name, size_t bytes) = 0;

  virtual std::unique_ptr<Stream> create_stream(std::string name, StreamUse use) = 0;
  virtual std::unique_ptr<Event> create_event(std::string name) = 0;
  virtual std::unique_ptr<Signal> create_signal(std::string name) = 0;
};

}  // namespace penstock
