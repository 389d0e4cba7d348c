// Memory of the tests on a GPU: the GPU's own for tensors, pinned memory for what tests of launchers share
// with it.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "kernels/cuda/runtime/pinned_memory.h"
#include "kernels/cuda/runtime/runtime_call.h"
#include "tests/kernels/cuda/kernel_memory.h"
#include "tests/kernels/math/tested_memory.h"

namespace penstock::testing {
namespace {

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
              [] { return "making the stream of a test's copies"; });
  return stream;
}

void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  static const cudaStream_t stream = make_stream();  // until the process ends
  const auto doing = [&] { return fmt::format("copying {} bytes of a test", bytes); };
  cuda::check(cudaMemcpyAsync(to, from, bytes, kind, stream), doing);
  cuda::check(cudaStreamSynchronize(stream), doing);
}

}  // namespace

namespace tested_memory {

void* reserve(size_t bytes) {
  void* memory = nullptr;
  cuda::use_gpu(0);
  cuda::check(cudaMalloc(&memory, bytes),
              [&] { return fmt::format("reserving {} bytes for a test", bytes); });
  return memory;
}
void release(void* memory) {
  cuda::report(cudaFree(memory), [] { return "giving a test's memory back"; });
}
void upload(void* memory, const void* host, size_t bytes) {
  copy(memory, host, bytes, cudaMemcpyHostToDevice);
}
void download(void* host, const void* memory, size_t bytes) {
  copy(host, memory, bytes, cudaMemcpyDeviceToHost);
}

}  // namespace tested_memory

namespace kernel_memory {

void* reserve(size_t bytes) {
  cuda::use_gpu(0);
  return cuda::reserve_pinned_memory("a test", bytes);
}
void release(void* memory) noexcept {
  cuda::release_pinned_memory(memory, 0);
}
void finish() {
  cuda::check(cudaStreamSynchronize(nullptr), [] { return "waiting for a test's kernels"; });
}

}  // namespace kernel_memory
}  // namespace penstock::testing
