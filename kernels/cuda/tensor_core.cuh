#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/shared_memory.cuh"

/// Products of small matrices by the 32 lanes of a warp together (PTX mma.m16n8k16 and ldmatrix, sm_80 and
/// newer). T: bfloat16 or float16. Lane L holds, with g = L / 4 and t = L % 4 and two elements a word:
///   a (16,16): words (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), of columns …, … + 1
///   b (16,8):  words (2t, g), (2t + 8, g), of rows …, … + 1
///   c (16,8):  fp32 (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
namespace penstock::cuda {

/// Two neighbours, the first in the low half.
template <class T>
__device__ inline uint32_t pack(float first, float second) {
  return static_cast<uint32_t>(from_float<T>(first).bits) | static_cast<uint32_t>(from_float<T>(second).bits)
                                                                << 16;
}

#ifdef __CUDACC__
/// Four matrices (8,8) of T at once: lane L gives the address of row L % 8 of matrix L / 8, 16 bytes
/// aligned to them; word i of the result is (g, 2t) of matrix i.
template <class T>
__device__ inline void load_matrices(uint32_t (&to)[4], Shared<T> row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
/// The same of the matrices' transposes: word i is (2t, g) and (2t + 1, g) of matrix i.
template <class T>
__device__ inline void load_transposed(uint32_t (&to)[4], Shared<T> row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
/// c += a · b.
template <class T>
__device__ inline void multiply_matrices(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, float16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

#else
template <class T>
uint32_t half_word(Shared<T> row, const char* address, const std::source_location& place) {
  simt::check_shared_read(*row.region(), address, sizeof(T), sizeof(T), place);
  return reinterpret_cast<const T*>(address)->bits;
}
/// Word i: elements (r, c) and (r + down, c + 1 − down) of matrix i.
template <class T>
void load_words(uint32_t (&to)[4], Shared<T> row, int r, int c, bool down,
                const std::source_location& place) {
  constexpr uintptr_t row_bytes = 16;
  if (reinterpret_cast<uintptr_t>(row.address()) % row_bytes != 0) {
    simt::fault("a row of a matrix that is not aligned to 16 bytes", place);
  }
  simt::WarpWords rows;
  const uint64_t mine[] = {reinterpret_cast<uint64_t>(row.address())};
  simt::gather_words(mine, 1, rows, place);
  for (int i = 0; i < 4; ++i) {
    const auto element = [&](int at_row, int at_column) {
      const auto* begin = reinterpret_cast<const char*>(rows[static_cast<unsigned>(8 * i + at_row)][0]);
      return half_word(row, begin + 2 * at_column, place);
    };
    to[i] = element(r, c) | element(down ? r + 1 : r, down ? c : c + 1) << 16;
  }
}
template <class T>
void load_matrices(uint32_t (&to)[4], Shared<T> row,
                   const std::source_location& place = std::source_location::current()) {
  const int lane = static_cast<int>(threadIdx.x) % warpSize;
  load_words(to, row, lane / 4, lane % 4 * 2, false, place);
}
template <class T>
void load_transposed(uint32_t (&to)[4], Shared<T> row,
                     const std::source_location& place = std::source_location::current()) {
  const int lane = static_cast<int>(threadIdx.x) % warpSize;
  load_words(to, row, lane % 4 * 2, lane / 4, true, place);
}
template <class T>
void multiply_matrices(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                       const std::source_location& place = std::source_location::current()) {
  const uint64_t mine[] = {a[0] | uint64_t{a[1]} << 32, a[2] | uint64_t{a[3]} << 32, b0 | uint64_t{b1} << 32};
  simt::WarpWords all;
  simt::gather_words(mine, 3, all, place);
  const unsigned lane = threadIdx.x % static_cast<unsigned>(warpSize);
  const auto value = [&](unsigned of_lane, unsigned word, unsigned part) {
    const auto words = static_cast<uint32_t>(all[of_lane][word / 2] >> (32 * (word % 2)));
    T element;
    element.bits = static_cast<uint16_t>(words >> (16 * part));
    return to_float(element);
  };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned low = i / 2;  // rows g + 8
    const unsigned column = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const float left = value(lane / 4 * 4 + k % 8 / 2, low + k / 8 * 2, k % 2);
      const float right = value(column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
      c[i] = fmaf(left, right, c[i]);
    }
  }
}
#endif

}  // namespace penstock::cuda
