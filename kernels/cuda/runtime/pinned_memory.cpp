#include "kernels/cuda/runtime/pinned_memory.h"

#include <cstring>

#include <fmt/format.h>

#include "kernels/cuda/runtime/runtime_call.h"

namespace penstock::cuda {

void* reserve_pinned_memory(const std::string& purpose, size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped), [&] {
    return fmt::format("{}: pinning {} bytes of host memory (the limit is ulimit -l, or the host's memory)",
                       purpose, bytes);
  });
  std::memset(memory, 0, bytes);
  return memory;
}

void release_pinned_memory(void* memory, size_t bytes) {
  report(cudaFreeHost(memory), [&] { return fmt::format("giving {} bytes of pinned memory back", bytes); });
}

}  // namespace penstock::cuda
