#include <utility>

#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/stream.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/kernels/device/contract/device_under_test.h"

namespace penstock::testing {
namespace {

/// Every test starts afresh.
class Reset : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& /*test*/) override { fake_cuda::reset(); }
};
const bool resets = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Reset);
  return true;
}();

}  // namespace

/// shuffled: the fake's streams pause at random. A rank a GPU, as long as there are.
std::unique_ptr<Device> make_device(DeviceOptions options) {
  if (options.mode == StreamMode::shuffled) {
    fake_cuda::shuffle(options.shuffle_seed + 1);
    options.mode = StreamMode::queued;
  }
  options.index = options.rank % fake_cuda::settings().gpus;
  return cuda::make_cuda_device(std::move(options));
}

std::vector<StreamMode> every_mode() {
  return {StreamMode::queued, StreamMode::shuffled};
}

std::vector<StreamMode> queued_modes() {
  return every_mode();
}

void enqueue(Stream& stream, const char* name, double cost, std::function<void()> task) {
  static_cast<void>(cuda::handle_of(stream));  // as a kernel would
  stream.host_task(name, cost, std::move(task));
}

}  // namespace penstock::testing
