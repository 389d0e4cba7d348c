#include <utility>

#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_access.h"
#include "kernels/cuda/runtime/gpu_choice.h"
#include "kernels/cuda/runtime/pinned_memory.h"
#include "tests/kernels/transport/rank_device.h"

namespace penstock::transport {

/// Ranks beyond the GPUs share them.
std::unique_ptr<Device> make_rank_device(DeviceOptions options) {
  options.index = options.rank % cuda::count_gpus();
  options.mode = StreamMode::queued;
  return cuda::make_cuda_device(std::move(options));
}

void attach(World& world, Device& device) {
  world.attach(cuda::access_to(device));
}

std::unique_ptr<std::byte[], void (*)(std::byte*)> make_memory(size_t bytes) {
  return {static_cast<std::byte*>(cuda::reserve_pinned_memory("a buffer of a test", bytes)),
          [](std::byte* memory) { cuda::release_pinned_memory(memory, 0); }};
}

}  // namespace penstock::transport
