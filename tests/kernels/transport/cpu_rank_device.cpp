#include <utility>

#include "kernels/cpu/device.h"
#include "tests/kernels/transport/rank_device.h"

namespace penstock::transport {

std::unique_ptr<Device> make_rank_device(DeviceOptions options) {
  return cpu::make_cpu_device(std::move(options));
}

void attach(World& /*world*/, Device& /*device*/) {}

std::unique_ptr<std::byte[], void (*)(std::byte*)> make_memory(size_t bytes) {
  return {new std::byte[bytes], [](std::byte* memory) { delete[] memory; }};
}

}  // namespace penstock::transport
