#pragma once

#include "kernels/cuda/shared_memory.cuh"

/// Reductions over the threads of a warp or a block, in a fixed order; every thread receives the result.
namespace penstock::cuda {

constexpr unsigned whole_warp = 0xffffffffU;
constexpr int warp_threads = 32;

struct Add {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};

/// The value of lane (own ^ distance). Structures that are reduced overload it.
template <class V>
__device__ inline V shuffle_xor(V value, int distance) {
  return __shfl_xor_sync(whole_warp, value, distance);
}

/// A butterfly: `combine` must be commutative to the bit, then all lanes have the same bits.
template <class V, class Combine>
__device__ inline V warp_reduce(V value, const Combine& combine) {
#pragma unroll
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    value = combine(value, shuffle_xor(value, distance));
  }
  return value;
}

/// Over `threads` threads: a warp, or the whole block. Every thread of it must call.
template <int threads, class V, class Combine>
__device__ inline V reduce(V value, const Combine& combine) {
  value = warp_reduce(value, combine);
  if constexpr (threads > warp_threads) {
    constexpr int warps = threads / warp_threads;
    SHARED_ARRAY(V, of_warps, warps);
    __syncthreads();  // the results of a call before have been read
    if (threadIdx.x % warp_threads == 0) of_warps[threadIdx.x / warp_threads] = value;
    __syncthreads();
    value = of_warps[0];
    for (int warp = 1; warp < warps; ++warp) value = combine(value, static_cast<V>(of_warps[warp]));
  }
  return value;
}

template <int threads, class V>
__device__ inline V reduce_sum(V value) {
  return reduce<threads>(value, Add{});
}

}  // namespace penstock::cuda
