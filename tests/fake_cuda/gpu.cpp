// Devices, versions, peers, names of errors, and the driver's entry points.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <cudaTypedefs.h>

#include "tests/fake_cuda/stream.h"

namespace penstock::fake_cuda {
namespace {

/// What every call says where the GPU cannot be used at all.
cudaError_t usable() {
  const Settings& all = settings();
  if (all.driver_version < CUDART_VERSION / 1000 * 1000) return cudaErrorInsufficientDriver;
  return all.gpus == 0 ? cudaErrorNoDevice : cudaSuccess;
}

std::atomic_ref<uint64_t> cell(CUdeviceptr address) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(address));
}

CUresult write_value(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned /*flags*/) {
  if (const cudaError_t code = entered("cuStreamWriteValue64", stream->gpu); code != cudaSuccess)
    return static_cast<CUresult>(code);
  stream->enqueue({[address, value] {
                     cell(address).store(value);
                     note_change();
                   },
                   false});
  return CUDA_SUCCESS;
}

CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned /*flags*/) {
  if (const cudaError_t code = entered("cuStreamWaitValue64", stream->gpu); code != cudaSuccess)
    return static_cast<CUresult>(code);
  stream->enqueue({[address, value, gpu = static_cast<size_t>(stream->gpu)] {
    State& all = state();
    // The host may write too, and tells nobody.
    constexpr std::chrono::microseconds poll(200);
    std::unique_lock lock(all.mutex);
    while (cell(address).load() < value && all.gpus[gpu].lost == cudaSuccess)
      all.changed.wait_for(lock, poll);
  }});
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = settings().driver_version;
  return entered("cudaDriverGetVersion", -1);
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (const cudaError_t code = entered("cudaGetDeviceCount", -1); code != cudaSuccess) return code;
  if (const cudaError_t code = usable(); code != cudaSuccess) return noted(code);
  *count = settings().gpus;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int gpu) {
  if (const cudaError_t code = entered("cudaSetDevice", -1); code != cudaSuccess) return code;
  if (const cudaError_t code = usable(); code != cudaSuccess) return noted(code);
  if (gpu < 0 || gpu >= settings().gpus) return noted(cudaErrorInvalidDevice);
  set_current_gpu(gpu);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* gpu) {
  *gpu = current_gpu();
  return entered("cudaGetDevice", -1);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int gpu) {
  if (const cudaError_t code = entered("cudaGetDeviceProperties", gpu); code != cudaSuccess) return code;
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Fake GPU");
  properties->totalGlobalMem = settings().memory;
  properties->major = settings().compute_major;
  properties->minor = settings().compute_minor;
  properties->multiProcessorCount = 4;
  properties->pciBusID = gpu + 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* possible, int /*gpu*/, int /*peer*/) {
  *possible = settings().peer_access ? 1 : 0;
  return entered("cudaDeviceCanAccessPeer", -1);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned /*flags*/) {
  if (const cudaError_t code = entered("cudaDeviceEnablePeerAccess", current_gpu()); code != cudaSuccess)
    return code;
  if (!settings().peer_access) return noted(cudaErrorPeerAccessUnsupported);
  const std::lock_guard lock(state().mutex);
  uint64_t& peers = state().gpus[static_cast<size_t>(current_gpu())].peers;
  const uint64_t bit = uint64_t{1} << static_cast<unsigned>(peer);
  if ((peers & bit) != 0) return noted(cudaErrorPeerAccessAlreadyEnabled);
  peers |= bit;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned /*version*/,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  if (const cudaError_t code = entered("cudaGetDriverEntryPointByVersion", -1); code != cudaSuccess)
    return code;
  const std::string_view name = symbol;
  *function = nullptr;
  if (name == "cuStreamWriteValue64") *function = reinterpret_cast<void*>(write_value);
  if (name == "cuStreamWaitValue64") *function = reinterpret_cast<void*>(wait_value);
  *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// Only the names of what the fake itself returns; the number says the rest.
const char* cudaGetErrorName(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorSystemDriverMismatch:
      return "cudaErrorSystemDriverMismatch";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    default:
      return "another CUDA error";
  }
}
const char* cudaGetErrorString(cudaError_t code) {
  thread_local char text[48];
  std::snprintf(text, sizeof(text), "fake error %d", static_cast<int>(code));
  return text;
}

}  // extern "C"

}  // namespace penstock::fake_cuda
