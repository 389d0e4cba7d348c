#include <utility>

#include "kernels/cpu/device.h"
#include "kernels/cpu/stream.h"
#include "tests/kernels/device/contract/device_under_test.h"

namespace penstock::testing {

std::unique_ptr<Device> make_device(DeviceOptions options) {
  return cpu::make_cpu_device(std::move(options));
}

std::vector<StreamMode> every_mode() {
  return {StreamMode::queued, StreamMode::inline_now, StreamMode::shuffled};
}

std::vector<StreamMode> queued_modes() {
  return {StreamMode::queued, StreamMode::shuffled};
}

void enqueue(Stream& stream, const char* name, double cost, std::function<void()> task) {
  cpu::CpuStream::of(stream).enqueue(name, cost, std::move(task));
}

}  // namespace penstock::testing
