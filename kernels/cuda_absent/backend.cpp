#include "kernels/backend/cuda_backend.h"
#include "kernels/device/error.h"

namespace penstock {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError(
      "this build has no CUDA: nvcc was not found when it was configured; configure it again with "
      "-DPENSTOCK_CUDA=ON, or run with --set parallel.device=cpu");
}

}  // namespace

bool cuda_built_in() {
  return false;
}

bool cuda_present() {
  return false;
}

CudaBackend make_cuda_backend(const CudaRequest& /*request*/) {
  refuse();
}

std::string cuda_placement(std::span<const std::string> /*places*/, bool /*share_devices*/) {
  refuse();
}

}  // namespace penstock
