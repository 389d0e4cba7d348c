#include <utility>

#include "kernels/cuda/make_math.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_access.h"
#include "kernels/cuda/runtime/runtime_call.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/parallel/runtime/rank_backend.h"

namespace penstock::testing {

/// Ranks beyond the fake's GPUs share them. Shuffling is the fake's.
RankBackend make_rank_backend(const DeviceOptions& options, transport::World* world) {
  DeviceOptions ours = options;
  ours.mode = StreamMode::queued;
  ours.index = options.rank % fake_cuda::settings().gpus;
  RankBackend backend;
  backend.device = cuda::make_cuda_device(ours);
  if (world != nullptr) world->attach(cuda::access_to(*backend.device));
  cuda::use_gpu(ours.index);
  cuda::MathOptions math;
  math.attention = CudaAttention::native;
  backend.math = cuda::make_math(*backend.device, cuda::GemmLibrary::create(*backend.device, {}), math);
  return backend;
}

}  // namespace penstock::testing
