#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"
#include "tests/parallel/runtime/rank_backend.h"

namespace penstock::testing {

RankBackend make_rank_backend(const DeviceOptions& options, transport::World* /*world*/) {
  RankBackend backend;
  backend.device = cpu::make_cpu_device(options);
  backend.math = cpu::make_math(*backend.device);
  return backend;
}

}  // namespace penstock::testing
