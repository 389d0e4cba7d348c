#include "kernels/cuda/runtime/device.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/gpu_choice.h"
#include "kernels/cuda/runtime/pinned_memory.h"
#include "kernels/cuda/runtime/profiler_range.h"
#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/cuda/runtime/signal.h"
#include "kernels/cuda/runtime/stamp_clock.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/work_graph.h"
#include "kernels/device/arena_table.h"
#include "kernels/device/device_memory.h"
#include "kernels/device/error.h"

namespace penstock::cuda {
namespace {

void release_gpu_memory(void* memory, size_t bytes) {
  report(cudaFree(memory), [&] { return fmt::format("giving {} bytes of GPU memory back", bytes); });
}

class CudaDevice final : public Device, public OwnMemory, public ProfilerRanges, public WorkGraphs {
 public:
  explicit CudaDevice(DeviceOptions options) : options_(std::move(options)), arenas_(options_.rank) {
    if (!options_.clock) options_.clock = make_real_clock();
    if (options_.clock->is_virtual() || options_.mode != StreamMode::queued) {
      throw UsageError(fmt::format(
          "rank {}: a CUDA device has real time and queued streams; for debugging set CUDA_LAUNCH_BLOCKING=1",
          options_.rank));
    }
    const int gpus = count_gpus();
    if (options_.index < 0 || options_.index >= gpus) {
      throw UsageError(fmt::format("rank {}: GPU {}; this process sees {}, from index 0", options_.rank,
                                   options_.index, gpus));
    }
    use_gpu(options_.index);
    check(cudaFree(nullptr),
          [&] { return fmt::format("rank {}: starting GPU {}", options_.rank, options_.index); });
    description_ = placement_of(options_.rank, options_.index).description;
    clock_.emplace(options_.index, options_.clock);
  }

  DeviceKind kind() const override { return DeviceKind::cuda; }
  const DeviceOptions& options() const override { return options_; }
  std::string description() const override { return description_; }

  Arena& create_arena(ArenaTag tag, size_t capacity) override {
    return arenas_.create(tag, capacity, release_gpu_memory,
                          [&](size_t bytes) { return reserve(tag, bytes); });
  }
  Arena& arena(ArenaTag tag) override { return arenas_.at(tag); }
  bool has_arena(ArenaTag tag) const override { return arenas_.has(tag); }
  void destroy_arena(ArenaTag tag) override { arenas_.destroy(tag); }
  void destroy_arena(const Arena& arena) override { arenas_.destroy(arena); }
  void set_arenas_aside() override { arenas_.set_aside(); }
  void bring_arenas_back() override { arenas_.bring_back(); }

  std::unique_ptr<HostMemory> create_host_memory(std::string_view name, size_t bytes) override {
    use_gpu(options_.index);
    void* memory =
        reserve_pinned_memory(fmt::format("rank {}, host memory \"{}\"", options_.rank, name), bytes);
    return std::make_unique<HostMemory>(memory, bytes, release_pinned_memory);
  }

  std::unique_ptr<Stream> create_stream(std::string name, StreamUse use) override {
    return std::make_unique<CudaStream>(std::move(name), use, options_, *clock_);
  }
  std::unique_ptr<Event> create_event(std::string name) override {
    return std::make_unique<CudaEvent>(std::move(name), options_.rank, options_.index, *clock_);
  }
  std::unique_ptr<Signal> create_signal(std::string name) override {
    use_gpu(options_.index);
    return std::make_unique<CudaSignal>(std::move(name), options_.rank);
  }

  DeviceMemory memory_left() const override {
    use_gpu(options_.index);
    size_t free = 0;
    size_t total = 0;
    check(cudaMemGetInfo(&free, &total), [&] {
      return fmt::format("rank {}: asking how much memory GPU {} has left", options_.rank, options_.index);
    });
    return {free, total, count_gpus()};
  }

  std::unique_ptr<ProfilerRange> create_range(const std::string& name) override {
    return make_profiler_range(name);
  }

  std::unique_ptr<WorkGraph> capture(Stream& stream, const std::function<void()>& queue) override {
    return capture_graph(CudaStream::of(stream), queue);
  }

 private:
  /// Zeroed, which touches it: nothing is missing later (contract C3).
  void* reserve(ArenaTag tag, size_t bytes) const {
    if (bytes == 0) return nullptr;
    use_gpu(options_.index);
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), [&] { return refusal(tag, bytes); });
    const auto zeroing = [&] {
      return fmt::format("rank {}, arena \"{}\": zeroing its {} bytes", options_.rank, name_of(tag), bytes);
    };
    check(cudaMemsetAsync(memory, 0, bytes, nullptr), zeroing);
    check(cudaStreamSynchronize(nullptr), zeroing);
    return memory;
  }

  std::string refusal(ArenaTag tag, size_t bytes) const {
    static_cast<void>(cudaGetLastError());
    const DeviceMemory left = memory_left();
    return fmt::format(
        "rank {}: arena \"{}\" needs {} bytes of GPU {}, {}, which has {} of {} left. This rank's arenas "
        "there:\n{}\nThe arena does not fit",
        options_.rank, name_of(tag), bytes, options_.index, description_, left.bytes, left.total,
        arenas_.table());
  }

  DeviceOptions options_;
  std::string description_;
  std::optional<StampClock> clock_;
  ArenaTable arenas_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(DeviceOptions options) {
  return std::make_unique<CudaDevice>(std::move(options));
}

}  // namespace penstock::cuda
