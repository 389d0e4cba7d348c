#include <cmath>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce_kernels.h"
#include "kernels/cuda/reduction.cuh"
#include "kernels/math/reduce.h"

namespace penstock::cuda {
namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads)
    squares_kernel(const float* x, double* blocks, int64_t n, bool whole) {
  constexpr int width = 4;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * math::norm_block;
  const int64_t count = min(math::norm_block, n - begin);
  double sum = 0;
  for (int64_t first = static_cast<int64_t>(threadIdx.x) * width; first < count; first += threads * width) {
    const Floats<width> values = load<width>(x + begin, first, count, whole);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const auto value = static_cast<double>(values[i]);
      sum += value * value;
    }
  }
  sum = reduce_sum<threads>(sum);
  if (threadIdx.x == 0) blocks[blockIdx.x] = sum;
}

/// values (n) added as doubles in ascending order by thread 0, for which the block fetches; the result is
/// thread 0's alone.
template <class T>
__device__ double ascending_sum(const T* values, int64_t n) {
  constexpr int fetched = 8 * threads;
  SHARED_ARRAY(double, part, fetched);
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += fetched) {
    const int here = static_cast<int>(min(static_cast<int64_t>(fetched), n - begin));
    for (int i = static_cast<int>(threadIdx.x); i < here; i += threads) {
      part[i] = static_cast<double>(values[begin + i]);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 8
      for (int i = 0; i < here; ++i) total += part[i];
    }
    __syncthreads();
  }
  return total;
}

template <class T>
__global__ void __launch_bounds__(threads) sum_kernel(const T* values, double* out, int64_t n) {
  const double total = ascending_sum(values, n);
  if (threadIdx.x == 0) *out = total;
}

__global__ void __launch_bounds__(threads)
    global_norm_kernel(const double* sums, int64_t n, float clip_norm, math::StepScalars* scalars) {
  const double total = ascending_sum(sums, n);
  if (threadIdx.x != 0) return;
  const double unscale = 1.0 / static_cast<double>(scalars->loss_scale);
  const double norm = sqrt(total) * unscale;
  const double clip = static_cast<double>(clip_norm) / (norm + 1e-6);
  scalars->gradient_norm = norm;
  scalars->clip_factor = static_cast<float>((clip_norm > 0.0F && clip < 1.0 ? clip : 1.0) * unscale);
  scalars->apply = norm - norm == 0.0 ? 1 : 0;  // neither infinite nor NaN
}

__device__ bool is_nonfinite(float x) {
  return (__float_as_uint(x) & 0x7f800000U) == 0x7f800000U;
}

template <class T>
__global__ void __launch_bounds__(threads)
    count_nonfinite_kernel(const T* x, unsigned long long* out, int64_t n, bool whole) {
  constexpr int width = pack_width<T>;
  int found = 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * threads * width;
  for (int64_t first = (static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x) * width; first < n;
       first += stride) {
    const Floats<width> values = load<width>(x, first, n, whole);
#pragma unroll
    for (int i = 0; i < width; ++i) found += is_nonfinite(values[i]) ? 1 : 0;
  }
  found = reduce_sum<threads>(found);
  // Integers: exact in any order.
  if (threadIdx.x == 0 && found != 0) atomicAdd(out, static_cast<unsigned long long>(found));
}

}  // namespace

void squares(StreamHandle stream, const float* x, double* blocks, int64_t n) {
  launch("squares", squares_kernel, {.blocks_x = math::norm_blocks(n), .threads = threads}, stream, x, blocks,
         n, aligned(x));
}

template <class T>
void sum(StreamHandle stream, const T* values, double* out, int64_t n) {
  launch("sum", sum_kernel<T>, {.threads = threads}, stream, values, out, n);
}

void global_norm(StreamHandle stream, const double* sums, int64_t n, float clip_norm,
                 math::StepScalars* scalars) {
  launch("global_norm", global_norm_kernel, {.threads = threads}, stream, sums, n, clip_norm, scalars);
}

template <class T>
void count_nonfinite(StreamHandle stream, const T* x, int64_t* out, int64_t n) {
  constexpr int64_t most_blocks = 1024;
  const int64_t blocks = ceil_divide(n, threads * pack_width<T>);
  launch("count_nonfinite", count_nonfinite_kernel<T>,
         {.blocks_x = blocks < most_blocks ? blocks : most_blocks, .threads = threads}, stream, x,
         reinterpret_cast<unsigned long long*>(out), n, aligned(x));
}

template void sum(StreamHandle, const float*, double*, int64_t);
template void sum(StreamHandle, const double*, double*, int64_t);
template void count_nonfinite(StreamHandle, const float*, int64_t*, int64_t);
template void count_nonfinite(StreamHandle, const bfloat16*, int64_t*, int64_t);
template void count_nonfinite(StreamHandle, const float16*, int64_t*, int64_t);

}  // namespace penstock::cuda
