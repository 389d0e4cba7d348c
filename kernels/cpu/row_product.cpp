#include "kernels/cpu/row_product.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/element.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/parallel.h"
#include "kernels/device/arena.h"

namespace penstock::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int most_tile_rows = 4;
constexpr int tile_columns = 4;
#else
constexpr int most_tile_rows = 2;
constexpr int tile_columns = 2;
#endif

/// Columns that are one piece of work: their weights stay near while all rows pass.
constexpr int64_t column_grain = 64;

/// How elements of a type are multiplied: `step` of them at a time, x as it was prepared. An element of the
/// depth always meets the same lane of the sum.
template <class T>
struct Multiply;

template <>
struct Multiply<float> {
  using Prepared = float;
  static constexpr int64_t step = lane_count;
  static Lanes weights(const float* w) { return Lanes::load(w); }
  static Lanes add(const Lanes& w, const float* x, const Lanes& sum) { return fused(w, Lanes::load(x), sum); }
  static void prepare(const float* from, float* to) { std::copy(from, from + step, to); }
};

template <>
struct Multiply<float16> {
  using Prepared = float;
  static constexpr int64_t step = lane_count;
  static Lanes weights(const float16* w) {
#if defined(__AVX512F__)
    return {_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)))};
#else
    alignas(64) std::array<float, lane_count> values;
    for (size_t i = 0; i < lane_count; ++i) values[i] = static_cast<float>(w[i]);
    return Lanes::load(values.data());
#endif
  }
  static Lanes add(const Lanes& w, const float* x, const Lanes& sum) {
    return fused(w, Lanes::load(x), sum);
  }
  static void prepare(const float16* from, float* to) {
    for (int64_t i = 0; i < step; ++i) to[i] = static_cast<float>(from[i]);
  }
};

#if defined(__AVX512BF16__)
template <>
struct Multiply<bfloat16> {
  using Prepared = bfloat16;
  static constexpr int64_t step = 2 * lane_count;
  static __m512i weights(const bfloat16* w) { return _mm512_loadu_si512(w); }
  static Lanes add(const __m512i& w, const bfloat16* x, const Lanes& sum) {
    return {_mm512_dpbf16_ps(sum.values, reinterpret_cast<__m512bh>(w),
                             reinterpret_cast<__m512bh>(_mm512_loadu_si512(x)))};
  }
  static void prepare(const bfloat16* from, bfloat16* to) { std::copy(from, from + step, to); }
};
#else
/// Pairs as 32-bit words: the first of each, then the second. x is prepared as 16 of the ones, then 16 of the
/// others.
struct LanePair {
  Lanes first;
  Lanes second;
};
template <>
struct Multiply<bfloat16> {
  using Prepared = float;
  static constexpr int64_t step = 2 * lane_count;
  static LanePair weights(const bfloat16* w) {
    alignas(64) std::array<float, lane_count> first;
    alignas(64) std::array<float, lane_count> second;
    for (size_t i = 0; i < lane_count; ++i) {
      first[i] = static_cast<float>(w[2 * i]);
      second[i] = static_cast<float>(w[2 * i + 1]);
    }
    return {Lanes::load(first.data()), Lanes::load(second.data())};
  }
  static Lanes add(const LanePair& w, const float* x, const Lanes& sum) {
    return fused(w.second, Lanes::load(x + lane_count), fused(w.first, Lanes::load(x), sum));
  }
  static void prepare(const bfloat16* from, float* to) {
    for (int64_t i = 0; i < lane_count; ++i) {
      to[i] = static_cast<float>(from[2 * i]);
      to[lane_count + i] = static_cast<float>(from[2 * i + 1]);
    }
  }
};
#endif

template <class T>
constexpr int64_t padded(int64_t depth) {
  return (depth + Multiply<T>::step - 1) / Multiply<T>::step * Multiply<T>::step;
}

/// One call with plain pointers; x as it was prepared, rows padded with zeros.
template <class T>
struct RowCall {
  const typename Multiply<T>::Prepared* x;
  const T* w;
  const float* bias;
  void* y;
  DType out;
  int64_t columns;
  int64_t depth;
};

template <class T>
void put(const RowCall<T>& call, int64_t row, int64_t column, float value) {
  if (call.bias != nullptr) value += call.bias[column];
  const int64_t at = row * call.columns + column;
  if (call.out == DType::fp32) {
    static_cast<float*>(call.y)[at] = value;
  } else {
    store(static_cast<T*>(call.y)[at], value);
  }
}

/// rows × columns elements of y from (row, column) on.
template <class T, int rows, int columns>
void multiply_tile(const RowCall<T>& call, int64_t row, int64_t column) {
  using How = Multiply<T>;
  const int64_t x_row = padded<T>(call.depth);
  const auto* const x = call.x + row * x_row;
  const T* const w = call.w + column * call.depth;
  Lanes sums[rows][columns];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) sums[r][c] = Lanes::zero();
  }
  const auto advance = [&](const T* weights, int64_t weights_row, int64_t k) {
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) {
      const auto right = How::weights(weights + c * weights_row);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) sums[r][c] = How::add(right, x + r * x_row + k, sums[r][c]);
    }
  };
  const int64_t whole = call.depth / How::step * How::step;
  for (int64_t k = 0; k < whole; k += How::step) {
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c)
      __builtin_prefetch(w + (columns + c) * call.depth + k, 0, 2);  // of the tile that comes next
    advance(w + k, call.depth, k);
  }
  if (whole < call.depth) {
    std::array<T, static_cast<size_t>(columns * How::step)> tail{};
    for (int c = 0; c < columns; ++c) {
      const T* const from = w + c * call.depth;
      std::copy(from + whole, from + call.depth, tail.data() + c * How::step);
    }
    advance(tail.data(), How::step, whole);
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) put(call, row + r, column + c, sums[r][c].sum());
  }
}

template <class T>
using Tile = void (*)(const RowCall<T>&, int64_t, int64_t);

template <class T, int columns, int... rows>
constexpr std::array<Tile<T>, most_tile_rows> tiles_of(std::integer_sequence<int, rows...>) {
  return {multiply_tile<T, rows + 1, columns>...};
}

template <class T>
void multiply_columns(const RowCall<T>& call, int64_t rows, int64_t begin, int64_t end) {
  constexpr auto numbers = std::make_integer_sequence<int, most_tile_rows>();
  static constexpr auto wide = tiles_of<T, tile_columns>(numbers);
  static constexpr auto narrow = tiles_of<T, 1>(numbers);
  for (int64_t column = begin; column < end;) {
    const bool fits = column + tile_columns <= end;
    for (int64_t row = 0; row < rows; row += most_tile_rows) {
      const auto count = static_cast<size_t>(std::min<int64_t>(most_tile_rows, rows - row));
      (fits ? wide : narrow)[count - 1](call, row, column);
    }
    column += fits ? tile_columns : 1;
  }
}

/// A row of x, padded with zeros to whole steps.
template <class T>
void prepare_row(const T* from, int64_t depth, typename Multiply<T>::Prepared* out) {
  constexpr int64_t step = Multiply<T>::step;
  int64_t k = 0;
  for (; k + step <= depth; k += step) Multiply<T>::prepare(from + k, out + k);
  if (k == depth) return;
  std::array<T, static_cast<size_t>(step)> tail{};
  std::copy(from + k, from + depth, tail.data());
  Multiply<T>::prepare(tail.data(), out + k);
}

}  // namespace

size_t RowProduct::workspace_bytes() const {
  size_t bytes = 0;
  with_element(in_, [&]<class T>(T) {
    bytes = static_cast<size_t>(rows_ * padded<T>(depth_)) * sizeof(typename Multiply<T>::Prepared);
  });
  return aligned(bytes);
}

void RowProduct::run(int64_t rows, const void* x, const void* w, const float* bias, void* y,
                     void* workspace) const {
  with_element(in_, [&]<class T>(T) {
    auto* const prepared = static_cast<typename Multiply<T>::Prepared*>(workspace);
    const auto* const given = static_cast<const T*>(x);
    const int64_t depth = depth_;
    parallel_blocks(rows, [=](int64_t row) {
      prepare_row(given + row * depth, depth, prepared + row * padded<T>(depth));
    });
    const RowCall<T> call{prepared, static_cast<const T*>(w), bias, y, out_, columns_, depth_};
    parallel_ranges(columns_, column_grain,
                    [&](int64_t begin, int64_t end) { multiply_columns(call, rows, begin, end); });
  });
}

}  // namespace penstock::cpu
