#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/fake_cuda/stream.h"

namespace penstock::fake_cuda {
namespace {

constexpr std::align_val_t alignment{256};

void* reserve(size_t bytes, int gpu) {
  void* memory = ::operator new(bytes, alignment);
  std::memset(memory, 0xa5, bytes);  // nothing is zero unless somebody zeroed it
  state().ranges[reinterpret_cast<uintptr_t>(memory)] = {bytes, gpu};
  return memory;
}

cudaError_t give_back(void* memory, bool pinned) {
  if (memory == nullptr) return cudaSuccess;
  const std::lock_guard lock(state().mutex);
  const auto found = state().ranges.find(reinterpret_cast<uintptr_t>(memory));
  if (found == state().ranges.end() || pinned != (found->second.gpu < 0)) return noted(cudaErrorInvalidValue);
  if (!pinned) state().gpus[static_cast<size_t>(found->second.gpu)].allocated -= found->second.bytes;
  state().ranges.erase(found);
  ::operator delete(memory, alignment);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (const cudaError_t code = entered("cudaMalloc", current_gpu()); code != cudaSuccess) return code;
  const std::lock_guard lock(state().mutex);
  size_t& allocated = state().gpus[static_cast<size_t>(current_gpu())].allocated;
  if (bytes > state().settings.memory - allocated) return noted(cudaErrorMemoryAllocation);
  *memory = reserve(bytes, current_gpu());
  allocated += bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (const cudaError_t code = entered("cudaFree", -1); code != cudaSuccess) return code;
  return give_back(memory, false);
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned /*flags*/) {
  if (const cudaError_t code = entered("cudaHostAlloc", current_gpu()); code != cudaSuccess) return code;
  const std::lock_guard lock(state().mutex);
  *memory = reserve(bytes, -1);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  if (const cudaError_t code = entered("cudaFreeHost", -1); code != cudaSuccess) return code;
  return give_back(memory, true);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (const cudaError_t code = entered("cudaMemGetInfo", current_gpu()); code != cudaSuccess) return code;
  *total = settings().memory;
  *free = settings().memory - allocated(current_gpu());
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  if (const cudaError_t code = entered("cudaMemcpyAsync", stream->gpu); code != cudaSuccess) return code;
  bool pageable = false;
  {
    const std::lock_guard lock(state().mutex);
    pageable = range_of(to) == nullptr || range_of(from) == nullptr;
  }
  const auto copy = [to, from, bytes] { std::memmove(to, from, bytes); };
  stream->enqueue({copy});
  if (pageable && stream->capture == nullptr) {
    // CUDA stages it, and may wait for the stream before or after.
    ++state().pageable_copies;
    stream->synchronize();
  }
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (stream == nullptr) {  // the default stream: at start-up, where the host waits for it at once
    if (const cudaError_t code = entered("cudaMemsetAsync", current_gpu()); code != cudaSuccess) return code;
    std::memset(to, value, bytes);
    return cudaSuccess;
  }
  if (const cudaError_t code = entered("cudaMemsetAsync", stream->gpu); code != cudaSuccess) return code;
  stream->enqueue({[to, value, bytes] { std::memset(to, value, bytes); }});
  return cudaSuccess;
}

}  // extern "C"

}  // namespace penstock::fake_cuda
