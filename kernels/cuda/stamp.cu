#include "kernels/cuda/launch.h"
#include "kernels/cuda/stamp_kernels.h"

namespace penstock::cuda {
namespace {

/// Nanoseconds, the same clock for all of a GPU. The harness has the host's.
__device__ uint64_t gpu_nanoseconds() {
#ifdef __CUDACC__
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
#else
  return simt::nanoseconds();
#endif
}

__global__ void write_time_kernel(uint64_t* nanoseconds) {
  *nanoseconds = gpu_nanoseconds();
}

}  // namespace

void write_time(StreamHandle stream, uint64_t* nanoseconds) {
  launch("write_time", write_time_kernel, {}, stream, nanoseconds);
}

}  // namespace penstock::cuda
