#include "kernels/cuda/runtime/runtime_call.h"

#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::cuda {
namespace {

std::string_view advice(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return "; use more ranks, a smaller micro-batch or recomputation, and look with nvidia-smi who else "
             "uses "
             "the GPU";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
      return "; some work queued before failed and the GPU's context is lost: start again from the last "
             "checkpoint, with CUDA_LAUNCH_BLOCKING=1 to see which kernel it is";
    case cudaErrorECCUncorrectable:
      return "; the GPU's memory has a fault: take the host out of the job (nvidia-smi -q -d ECC)";
    case cudaErrorNoKernelImageForDevice:
      return "; this build has kernels for compute capability 8.x and 9.0";
    case cudaErrorDevicesUnavailable:
      return "; another process holds the GPU exclusively (nvidia-smi -q -d COMPUTE)";
    default:
      return "";
  }
}

thread_local constinit int current_gpu = -1;

}  // namespace

std::string describe(cudaError_t code) {
  return fmt::format("{} ({})", cudaGetErrorName(code), cudaGetErrorString(code));
}

void fail(cudaError_t code, const std::string& doing) {
  // A refused call leaves its code behind, which would be taken for the next one's.
  static_cast<void>(cudaGetLastError());
  throw DeviceError(fmt::format("{}: {}{}", doing, describe(code), advice(code)));
}

void print_failure(cudaError_t code, const std::string& doing) noexcept {
  static_cast<void>(cudaGetLastError());
  std::fputs(fmt::format("penstock: {}: {}{}\n", doing, describe(code), advice(code)).c_str(), stderr);
}

void use_gpu(int index) {
  if (current_gpu == index) return;
  check(cudaSetDevice(index), [&] { return fmt::format("choosing GPU {}", index); });
  current_gpu = index;
}

}  // namespace penstock::cuda
