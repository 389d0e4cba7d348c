#pragma once

/// What nvcc knows without being told, for kernel sources compiled as plain C++ under the harness. Included
/// on the command line (-include), before a kernel source's first line. Names are CUDA's.

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>
#include <vector_types.h>

#include "tests/simt/machine.h"
#include "tests/simt/shared_memory.h"

#undef __launch_bounds__
#define __launch_bounds__(...)
#define threadIdx (::penstock::simt::current_here->thread)
#define blockIdx (::penstock::simt::current_here->block)
#define blockDim (::penstock::simt::current_here->block_size)
#define gridDim (::penstock::simt::current_here->grid_size)

constexpr int warpSize = 32;

namespace penstock::simt {

template <class T>
uint64_t to_word(const T& value) {
  static_assert(std::is_arithmetic_v<T> || std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>,
                "CUDA shuffles numbers only");
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}
template <class T>
T from_word(uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

/// T, in a place that takes no part in template argument deduction.
template <class T>
using Plain = std::type_identity_t<T>;

}  // namespace penstock::simt

inline void __syncthreads(const std::source_location& place = std::source_location::current()) {
  penstock::simt::barrier(penstock::simt::Vote::none, false, place);
}
inline int __syncthreads_or(int predicate,
                            const std::source_location& place = std::source_location::current()) {
  return penstock::simt::barrier(penstock::simt::Vote::any, predicate != 0, place);
}
inline int __syncthreads_and(int predicate,
                             const std::source_location& place = std::source_location::current()) {
  return penstock::simt::barrier(penstock::simt::Vote::all, predicate != 0, place);
}
inline int __syncthreads_count(int predicate,
                               const std::source_location& place = std::source_location::current()) {
  return penstock::simt::barrier(penstock::simt::Vote::count, predicate != 0, place);
}

inline void __syncwarp(unsigned mask = 0xffffffffU,
                       const std::source_location& place = std::source_location::current()) {
  penstock::simt::warp_exchange(penstock::simt::WarpOperation::sync, mask, 0, 0, 0, place);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              const std::source_location& place = std::source_location::current()) {
  return penstock::simt::from_word<T>(penstock::simt::warp_exchange(
      penstock::simt::WarpOperation::shuffle, mask, penstock::simt::to_word(value), source, width, place));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32,
                 const std::source_location& place = std::source_location::current()) {
  return penstock::simt::from_word<T>(penstock::simt::warp_exchange(
      penstock::simt::WarpOperation::shuffle_up, mask, penstock::simt::to_word(value),
      static_cast<int>(distance), width, place));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                   const std::source_location& place = std::source_location::current()) {
  return penstock::simt::from_word<T>(penstock::simt::warp_exchange(
      penstock::simt::WarpOperation::shuffle_down, mask, penstock::simt::to_word(value),
      static_cast<int>(distance), width, place));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  const std::source_location& place = std::source_location::current()) {
  return penstock::simt::from_word<T>(penstock::simt::warp_exchange(
      penstock::simt::WarpOperation::shuffle_xor, mask, penstock::simt::to_word(value), lanes, width, place));
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              const std::source_location& place = std::source_location::current()) {
  return static_cast<unsigned>(penstock::simt::warp_exchange(
      penstock::simt::WarpOperation::ballot, mask, static_cast<uint64_t>(predicate != 0), 0, 0, place));
}
inline int __any_sync(unsigned mask, int predicate,
                      const std::source_location& place = std::source_location::current()) {
  return static_cast<int>(penstock::simt::warp_exchange(penstock::simt::WarpOperation::any, mask,
                                                        static_cast<uint64_t>(predicate != 0), 0, 0, place));
}
inline int __all_sync(unsigned mask, int predicate,
                      const std::source_location& place = std::source_location::current()) {
  return static_cast<int>(penstock::simt::warp_exchange(penstock::simt::WarpOperation::all, mask,
                                                        static_cast<uint64_t>(predicate != 0), 0, 0, place));
}

/// Relaxed, as CUDA's: they order nothing.
template <class T>
T atomicAdd(T* address, penstock::simt::Plain<T> value) {
  return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
}
template <class T>
T atomicExch(T* address, penstock::simt::Plain<T> value) {
  return std::atomic_ref<T>(*address).exchange(value, std::memory_order_relaxed);
}
template <class T>
T atomicCAS(T* address, penstock::simt::Plain<T> expected, penstock::simt::Plain<T> value) {
  std::atomic_ref<T>(*address).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  return expected;
}
template <class T>
T atomicMax(T* address, penstock::simt::Plain<T> value) {
  T old = std::atomic_ref<T>(*address).load(std::memory_order_relaxed);
  while (old < value &&
         !std::atomic_ref<T>(*address).compare_exchange_weak(old, value, std::memory_order_relaxed)) {
  }
  return old;
}

template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __ffs(int x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1;
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float rsqrtf(float x) {
  return 1.0F / std::sqrt(x);
}
inline float __fdividef(float x, float y) {
  return x / y;
}
