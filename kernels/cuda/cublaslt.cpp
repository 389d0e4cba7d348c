#include "kernels/cuda/cublaslt.h"

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::cuda {
namespace {

std::string_view advice(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the device is not usable: `nvidia-smi` shows the driver, `penstock --version` the CUDA release "
             "of "
             "this build";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "memory is short: give the libraries room with a lower `parallel.memory_limit_gib`, and look "
             "for "
             "other programs on the device";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "this device is older than the kernels of this build";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "this release of cuBLASLt cannot do it; install the one that this build was made with or newer";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "a kernel failed, this one or one before it: compute-sanitizer names it";
    default:
      return "please report this with the output of `penstock --version`";
  }
}

}  // namespace

void check_cublas(cublasStatus_t status, std::string_view doing, std::string_view on) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(fmt::format("{} {}: {} ({}); {}", doing, on, cublasLtGetStatusName(status),
                                cublasLtGetStatusString(status), advice(status)));
}

cudaDataType_t cublas_type(DType dtype) {
  if (dtype == DType::fp32) return CUDA_R_32F;
  if (dtype == DType::bf16) return CUDA_R_16BF;
  if (dtype == DType::fp16) return CUDA_R_16F;
  throw UsageError(fmt::format("matrix products are fp32, bf16 and fp16, not {}", name_of(dtype)));
}

}  // namespace penstock::cuda
