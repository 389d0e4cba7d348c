#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/shared_memory.cuh"
#include "kernels/device/bfloat16.h"
#include "kernels/device/float16.h"

/// Element types in device code, and the accesses that all kernels share: 16 bytes at a time where memory
/// allows, one by one where it does not, into the same registers in the same order, so that an element's bits
/// do not depend on its place (contract C1 f).
namespace penstock::cuda {

__device__ inline float to_float(float value) {
  return value;
}
__device__ inline float to_float(bfloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
__device__ inline float to_float(float16 value) {
  return __half2float(__ushort_as_half(value.bits));
}

/// value, rounded to nearest even.
template <class T>
__device__ inline T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline bfloat16 from_float<bfloat16>(float value) {
  bfloat16 result;
  result.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
  return result;
}
template <>
__device__ inline float16 from_float<float16>(float value) {
  float16 result;
  result.bits = __half_as_ushort(__float2half_rn(value));
  return result;
}

/// Elements that one 16-byte access moves.
template <class T>
inline constexpr int pack_width = 16 / static_cast<int>(sizeof(T));

/// N neighbours in memory.
template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Chunk {
  T values[N];
};

/// N neighbours in registers.
template <int N>
struct Floats {
  float values[N];
  __device__ float& operator[](int i) { return values[i]; }
  __device__ float operator[](int i) const { return values[i]; }
};

/// Elements first … first + N − 1 of `from` (count), 0 beyond its end. `whole`: from + first is aligned as a
/// Chunk for every first that is a multiple of N.
template <int N, class T>
__device__ inline Chunk<T, N> load_chunk(const T* from, int64_t first, int64_t count, bool whole) {
  if (whole && first + N <= count) {
    check_alignment(from + first, alignof(Chunk<T, N>));
    return *reinterpret_cast<const Chunk<T, N>*>(from + first);
  }
  Chunk<T, N> chunk;
#pragma unroll
  for (int i = 0; i < N; ++i) chunk.values[i] = first + i < count ? from[first + i] : from_float<T>(0.0F);
  return chunk;
}

template <class T, int N>
__device__ inline Floats<N> to_floats(const Chunk<T, N>& chunk) {
  Floats<N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) result[i] = to_float(chunk.values[i]);
  return result;
}

template <int N, class T>
__device__ inline Floats<N> load(const T* from, int64_t first, int64_t count, bool whole) {
  return to_floats(load_chunk<N>(from, first, count, whole));
}

/// Elements first … of `to` (count) = those of chunk; nothing beyond its end.
template <class T, int N>
__device__ inline void store_chunk(T* to, int64_t first, int64_t count, bool whole,
                                   const Chunk<T, N>& chunk) {
  if (whole && first + N <= count) {
    check_alignment(to + first, alignof(Chunk<T, N>));
    *reinterpret_cast<Chunk<T, N>*>(to + first) = chunk;
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (first + i < count) to[first + i] = chunk.values[i];
    }
  }
}

/// The same, rounded.
template <int N, class T>
__device__ inline void store(T* to, int64_t first, int64_t count, bool whole, const Floats<N>& values) {
  Chunk<T, N> chunk;
#pragma unroll
  for (int i = 0; i < N; ++i) chunk.values[i] = from_float<T>(values[i]);
  store_chunk(to, first, count, whole, chunk);
}

/// Whether every one of these pointers (absent ones included) is a multiple of 16 bytes.
template <class... T>
__host__ __device__ bool aligned(const T*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace penstock::cuda
