#include "kernels/cpu/device.h"

#include <utility>

#include <fmt/format.h>

#include "kernels/cpu/event.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/cpu/processor.h"
#include "kernels/cpu/signal.h"
#include "kernels/cpu/stream.h"
#include "kernels/device/arena_table.h"
#include "kernels/device/error.h"

namespace penstock::cpu {
namespace {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(DeviceOptions options) : options_(std::move(options)), arenas_(options_.rank) {
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
    return arenas_.create(tag, capacity, release_memory, [&](size_t bytes) {
      return reserve_memory(fmt::format("rank {}, arena \"{}\"", options_.rank, name_of(tag)), bytes);
    });
  }
  Arena& arena(ArenaTag tag) override { return arenas_.at(tag); }
  bool has_arena(ArenaTag tag) const override { return arenas_.has(tag); }
  void destroy_arena(ArenaTag tag) override { arenas_.destroy(tag); }
  void destroy_arena(const Arena& arena) override { arenas_.destroy(arena); }
  void set_arenas_aside() override { arenas_.set_aside(); }
  void bring_arenas_back() override { arenas_.bring_back(); }

  std::unique_ptr<HostMemory> create_host_memory(std::string_view name, size_t bytes) override {
    void* memory = reserve_memory(fmt::format("rank {}, host memory \"{}\"", options_.rank, name), bytes);
    return std::make_unique<HostMemory>(memory, bytes, release_memory);
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
  ArenaTable arenas_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(DeviceOptions options) {
  return std::make_unique<CpuDevice>(std::move(options));
}

}  // namespace penstock::cpu
