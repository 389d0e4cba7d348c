#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/stream_handle.h"

/// How every kernel starts, never <<<>>>: a kernel source is CUDA under nvcc and plain C++ under the SIMT
/// harness of the tests, which stands in for the machine.
namespace penstock::cuda {

struct LaunchShape {
  int64_t blocks_x = 1;  ///< 0: nothing to do
  int64_t blocks_y = 1;
  int threads = 1;
  size_t shared_bytes = 0;  ///< dynamic shared memory
};

constexpr int64_t ceil_divide(int64_t count, int64_t by) {
  return (count + by - 1) / by;
}

#ifdef __CUDACC__
/// arguments: the address of each. DeviceError with the kernel's name and CUDA's reason if it does not start.
void launch_kernel(const char* name, const void* kernel, const LaunchShape& shape, StreamHandle stream,
                   void** arguments);
#endif

/// Enqueues `kernel` on `stream`. `name` is a literal, for errors and traces.
template <class... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape, StreamHandle stream,
            std::type_identity_t<Parameters>... arguments) {
  if (shape.blocks_x == 0 || shape.blocks_y == 0) return;
#ifdef __CUDACC__
  void* addresses[] = {&arguments...};
  launch_kernel(name, reinterpret_cast<const void*>(kernel), shape, stream, addresses);
#else
  simt::launch(stream,
               {name,
                {static_cast<unsigned>(shape.blocks_x), static_cast<unsigned>(shape.blocks_y)},
                {static_cast<unsigned>(shape.threads)},
                shape.shared_bytes},
               [=] { kernel(arguments...); });
#endif
}

}  // namespace penstock::cuda
