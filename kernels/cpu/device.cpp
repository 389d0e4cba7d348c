#include "kernels/cpu/device.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "kernels/cpu/event.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/cpu/processor.h"
#include "kernels/cpu/signal.h"
#include "kernels/cpu/stream.h"
#include "kernels/device/error.h"

namespace penstock::cpu {
namespace {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(DeviceOptions options) : options_(std::move(options)) {
    if (options_.threads < 1) {
      throw UsageError(fmt::format("rank {}: a CPU device of {} threads; at least 1 is needed", options_.rank,
                                   options_.threads));
    }
    if (options_.index != 0) {
      throw UsageError(fmt::format("rank {}: CPU device {}; there is one processor, index 0", options_.rank,
                                   options_.index));
    }
    if (!options_.clock) options_.clock = make_real_clock();
  }

  DeviceKind kind() const override { return DeviceKind::cpu; }
  const DeviceOptions& options() const override { return options_; }
  std::string description() const override {
    return fmt::format("{} ({} thread{})", processor_name(), options_.threads,
                       options_.threads == 1 ? "" : "s");
  }

  Arena& create_arena(ArenaTag tag, size_t capacity) override {
    std::unique_ptr<Arena>& place = arenas_[static_cast<size_t>(tag)];
    if (place) {
      throw DeviceError(fmt::format(
          "rank {}: arena \"{}\" exists already, with {} bytes; destroy it before making one of {}",
          options_.rank, name_of(tag), place->capacity(), capacity));
    }
    void* memory =
        reserve_memory(fmt::format("rank {}, arena \"{}\"", options_.rank, name_of(tag)), capacity);
    place = std::make_unique<Arena>(tag, memory, capacity, release_memory);
    return *place;
  }

  Arena& arena(ArenaTag tag) override {
    std::unique_ptr<Arena>& place = arenas_[static_cast<size_t>(tag)];
    if (!place)
      throw UsageError(fmt::format("rank {}: there is no arena \"{}\"; create_arena makes it", options_.rank,
                                   name_of(tag)));
    return *place;
  }

  bool has_arena(ArenaTag tag) const override { return arenas_[static_cast<size_t>(tag)] != nullptr; }

  void destroy_arena(ArenaTag tag) override {
    arena(tag);
    arenas_[static_cast<size_t>(tag)].reset();
  }

  std::unique_ptr<Stream> create_stream(std::string name, StreamUse use) override {
    return std::make_unique<CpuStream>(std::move(name), use, options_, streams_made_++);
  }
  std::unique_ptr<Event> create_event(std::string name) override {
    return std::make_unique<CpuEvent>(std::move(name), options_.clock->is_virtual());
  }
  std::unique_ptr<Signal> create_signal(std::string name) override {
    return std::make_unique<CpuSignal>(std::move(name), options_.clock->is_virtual());
  }

 private:
  DeviceOptions options_;
  uint64_t streams_made_ = 0;
  std::array<std::unique_ptr<Arena>, arena_tag_count> arenas_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(DeviceOptions options) {
  return std::make_unique<CpuDevice>(std::move(options));
}

}  // namespace penstock::cpu
