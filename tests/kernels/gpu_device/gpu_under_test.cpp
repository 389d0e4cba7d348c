// The contract of devices on the GPUs that there are; ranks share them.
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/gpu_choice.h"
#include "kernels/cuda/runtime/stream.h"
#include "tests/kernels/device/contract/device_under_test.h"

namespace penstock::testing {

std::unique_ptr<Device> make_device(DeviceOptions options) {
  options.index = options.rank % cuda::count_gpus();
  return cuda::make_cuda_device(std::move(options));
}

std::vector<StreamMode> every_mode() {
  return {StreamMode::queued};
}

std::vector<StreamMode> queued_modes() {
  return every_mode();
}

void enqueue(Stream& stream, const char* name, double cost, std::function<void()> task) {
  static_cast<void>(cuda::handle_of(stream));  // as a kernel would
  stream.host_task(name, cost, std::move(task));
}

}  // namespace penstock::testing
