#pragma once

#include <string>

#include <cuda_runtime_api.h>

namespace penstock::cuda {

/// "cudaErrorMemoryAllocation (out of memory)".
std::string describe(cudaError_t code);

/// DeviceError "<doing>: <what CUDA says>[; <what to do>]". A context that is lost says so.
[[noreturn]] void fail(cudaError_t code, const std::string& doing);

/// check(cudaMalloc(…), [&] { return fmt::format(…); }): the words are made on failure only.
template <class Doing>
void check(cudaError_t code, const Doing& doing) {
  if (code != cudaSuccess) [[unlikely]]
    fail(code, doing());
}

/// Destructors: what went wrong goes to stderr. At the end of a process the driver may be gone already,
/// which is no error.
void print_failure(cudaError_t code, const std::string& doing) noexcept;
template <class Doing>
void report(cudaError_t code, const Doing& doing) noexcept {
  if (code != cudaSuccess && code != cudaErrorCudartUnloading) [[unlikely]]
    print_failure(code, doing());
}

/// Makes the GPU of this index the calling thread's, if it is not. DeviceError if CUDA refuses.
void use_gpu(int index);

}  // namespace penstock::cuda
