#include "kernels/cuda/runtime/device.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing::under_test {

std::unique_ptr<Device> make_device(int /*variant*/) {
  return cuda::make_cuda_device({});
}

}  // namespace penstock::testing::under_test
