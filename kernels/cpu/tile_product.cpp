#include "kernels/cpu/tile_product.h"

#include <algorithm>
#include <array>
#include <utility>

namespace penstock::cpu {
namespace {

/// Accumulators: 6 · 4 of the 32 registers, 4 for a row of B, the rest for broadcasts.
constexpr int most_rows = 6;
constexpr int most_vectors = 4;

template <int rows, int vectors>
void multiply_block(const TileProduct& product, const float* a, const float* b, float* c) {
  Lanes sums[rows][vectors];
#pragma GCC unroll 8
  for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      sums[row][v] =
          product.accumulate ? Lanes::load(c + row * product.c_row + v * lane_count) : Lanes::zero();
    }
  }
  const int64_t a_row = product.a_row;
  const int64_t a_depth = product.a_depth;
  const int64_t b_depth = product.b_depth;
  for (int64_t k = product.depth; k > 0; --k) {
    Lanes right[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) right[v] = Lanes::load(b + v * lane_count);
#pragma GCC unroll 8
    for (int row = 0; row < rows; ++row) {
      const Lanes left = Lanes::broadcast(a[row * a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[row][v] = fused(left, right[v], sums[row][v]);
    }
    a += a_depth;
    b += b_depth;
  }
#pragma GCC unroll 8
  for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[row][v].store(c + row * product.c_row + v * lane_count);
  }
}

using Block = void (*)(const TileProduct&, const float*, const float*, float*);

template <int rows, int... vectors>
constexpr std::array<Block, most_vectors> blocks_of(std::integer_sequence<int, vectors...>) {
  return {multiply_block<rows, vectors + 1>...};
}

template <int... rows>
constexpr std::array<std::array<Block, most_vectors>, most_rows> all_blocks(
    std::integer_sequence<int, rows...>) {
  return {blocks_of<rows + 1>(std::make_integer_sequence<int, most_vectors>())...};
}

/// blocks[rows − 1][vectors − 1].
constexpr auto blocks = all_blocks(std::make_integer_sequence<int, most_rows>());

}  // namespace

void multiply(const TileProduct& product) {
  for (int64_t v = 0; v < product.vectors; v += most_vectors) {
    const auto vectors = static_cast<size_t>(std::min<int64_t>(most_vectors, product.vectors - v));
    for (int64_t row = 0; row < product.rows; row += most_rows) {
      const auto rows = static_cast<size_t>(std::min<int64_t>(most_rows, product.rows - row));
      blocks[rows - 1][vectors - 1](product, product.a + row * product.a_row, product.b + v * lane_count,
                                    product.c + row * product.c_row + v * lane_count);
    }
  }
}

}  // namespace penstock::cpu
