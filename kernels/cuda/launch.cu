#include <string>

#include <cuda_runtime_api.h>

#include "kernels/cuda/launch.h"
#include "kernels/device/error.h"

namespace penstock::cuda {
namespace {

void check(cudaError_t code, const char* name, const char* doing) {
  if (code == cudaSuccess) return;
  throw DeviceError(std::string("kernel ") + name + ": " + doing + ": " + cudaGetErrorName(code) + ", " +
                    cudaGetErrorString(code));
}

/// What a kernel may use without asking.
constexpr size_t shared_bytes_granted = 48 * 1024;

}  // namespace

void launch_kernel(const char* name, const void* kernel, const LaunchShape& shape, StreamHandle stream,
                   void** arguments) {
  if (shape.shared_bytes > shared_bytes_granted) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shape.shared_bytes)),
          name, "asking for dynamic shared memory");
  }
  const dim3 grid(static_cast<unsigned>(shape.blocks_x), static_cast<unsigned>(shape.blocks_y));
  const dim3 block(static_cast<unsigned>(shape.threads));
  check(cudaLaunchKernel(kernel, grid, block, arguments, shape.shared_bytes, stream), name, "launch");
}

}  // namespace penstock::cuda
