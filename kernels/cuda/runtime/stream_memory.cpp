#include "kernels/cuda/runtime/stream_memory.h"

#include <cudaTypedefs.h>
#include <fmt/format.h>

#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/device/error.h"

namespace penstock::cuda {
namespace {

constexpr unsigned first_version = 11070;  // of the 64-bit operations as they are now

template <class Function>
Function entry(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
  check(cudaGetDriverEntryPointByVersion(name, &found, first_version, cudaEnableDefault, &result),
        [&] { return fmt::format("asking the CUDA driver for {}", name); });
  if (result != cudaDriverEntryPointSuccess || found == nullptr) {
    throw DeviceError(fmt::format(
        "the CUDA driver has no {}, which orders the work of ranks that share a process; a driver of CUDA 12 "
        "or newer has it: update the driver, or start a process a rank (transport \"nccl\")",
        name));
  }
  return reinterpret_cast<Function>(found);
}

CUdeviceptr address_of(const uint64_t* cell) {
  return reinterpret_cast<CUdeviceptr>(cell);
}

}  // namespace

// CUresult and cudaError_t number their errors alike.

cudaError_t queue_write(cudaStream_t stream, uint64_t* cell, uint64_t value) {
  static const auto write = entry<PFN_cuStreamWriteValue64_v11070>("cuStreamWriteValue64");
  return static_cast<cudaError_t>(write(stream, address_of(cell), value, CU_STREAM_WRITE_VALUE_DEFAULT));
}

cudaError_t queue_wait(cudaStream_t stream, const uint64_t* cell, uint64_t value) {
  static const auto wait = entry<PFN_cuStreamWaitValue64_v11070>("cuStreamWaitValue64");
  return static_cast<cudaError_t>(wait(stream, address_of(cell), value, CU_STREAM_WAIT_VALUE_GEQ));
}

}  // namespace penstock::cuda
