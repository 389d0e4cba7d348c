#pragma once

#include <functional>
#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared_memory.cuh"

/// For the harness's own tests: kernels as lambdas.
namespace penstock::simt {

/// One block of `threads` threads, `shared_bytes` of dynamic shared memory.
inline void run_block(unsigned threads, const std::function<void()>& kernel, size_t shared_bytes = 0) {
  run({"planted", dim3(1), dim3(threads), shared_bytes}, kernel);
}

/// The Fault that the kernel ends with, or "" if it ends well.
inline std::string fault_of(unsigned threads, const std::function<void()>& kernel, size_t shared_bytes = 0) {
  try {
    run_block(threads, kernel, shared_bytes);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return {};
}

}  // namespace penstock::simt
