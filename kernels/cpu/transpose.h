#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/lanes.h"

namespace penstock::cpu {

/// to (16,16) = from (16,16)ᵀ, rows `from_row` and `to_row` floats apart.
inline void transpose_block(const float* from, int64_t from_row, float* to, int64_t to_row) {
#if defined(__AVX512F__)
  // Pairs of rows, then of pairs, within quarters of a vector; then the quarters change places.
  __m512 a[16];
  __m512 b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_ps(from + i * from_row);
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    b[i + 1] =
        __builtin_shufflevector(a[i], a[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    // Vector i + j: column 4 q + j of rows i to i + 3 in quarter q.
    a[i] = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
    a[i + 1] =
        __builtin_shufflevector(b[i], b[i + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    a[i + 2] =
        __builtin_shufflevector(b[i + 1], b[i + 3], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
    a[i + 3] = __builtin_shufflevector(b[i + 1], b[i + 3], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15,
                                       30, 31);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512 low01 =
        __builtin_shufflevector(a[j], a[4 + j], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    const __m512 high01 =
        __builtin_shufflevector(a[j], a[4 + j], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    const __m512 low23 =
        __builtin_shufflevector(a[8 + j], a[12 + j], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    const __m512 high23 = __builtin_shufflevector(a[8 + j], a[12 + j], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25,
                                                  26, 27, 28, 29, 30, 31);
    _mm512_storeu_ps(to + j * to_row, __builtin_shufflevector(low01, low23, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17,
                                                              18, 19, 24, 25, 26, 27));
    _mm512_storeu_ps(to + (4 + j) * to_row, __builtin_shufflevector(low01, low23, 4, 5, 6, 7, 12, 13, 14, 15,
                                                                    20, 21, 22, 23, 28, 29, 30, 31));
    _mm512_storeu_ps(to + (8 + j) * to_row, __builtin_shufflevector(high01, high23, 0, 1, 2, 3, 8, 9, 10, 11,
                                                                    16, 17, 18, 19, 24, 25, 26, 27));
    _mm512_storeu_ps(to + (12 + j) * to_row, __builtin_shufflevector(high01, high23, 4, 5, 6, 7, 12, 13, 14,
                                                                     15, 20, 21, 22, 23, 28, 29, 30, 31));
  }
#else
  for (int64_t row = 0; row < lane_count; ++row) {
    for (int64_t column = 0; column < lane_count; ++column) {
      to[column * to_row + row] = from[row * from_row + column];
    }
  }
#endif
}

/// to (columns, rows) = from (rows, columns)ᵀ, rows `from_row` and `to_row` floats apart.
inline void transpose(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                      int64_t to_row) {
  for (int64_t row = 0; row < rows; row += lane_count) {
    const int64_t height = std::min<int64_t>(lane_count, rows - row);
    for (int64_t column = 0; column < columns; column += lane_count) {
      const int64_t width = std::min<int64_t>(lane_count, columns - column);
      const float* const in = from + row * from_row + column;
      float* const out = to + column * to_row + row;
      if (height == lane_count && width == lane_count) {
        transpose_block(in, from_row, out, to_row);
        continue;
      }
      for (int64_t r = 0; r < height; ++r) {
        for (int64_t c = 0; c < width; ++c) out[c * to_row + r] = in[r * from_row + c];
      }
    }
  }
}

}  // namespace penstock::cpu
