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
/// 24 of the 32 registers are sums, the others 4 rows and one column's weights. Rows are fewer than columns
/// because the tile's weights then stay in the first cache while all rows pass: with 8 × 3, x and they left
/// each other no room, and what was asked of memory waited behind the second cache.
constexpr int most_tile_rows = 4;
constexpr int tile_columns = 6;
#else
constexpr int most_tile_rows = 2;
constexpr int tile_columns = 2;
#endif

/// Columns that are one piece of work: whole tiles.
constexpr int64_t column_grain = 48;

/// The value, loaded once: the compiler would load it again with every multiplication, and loads are what
/// tiles of several rows have too many of.
#if defined(__AVX512F__)
inline Lanes in_register(Lanes lanes) {
  asm("" : "+v"(lanes.values));
  return lanes;
}
inline __m512i in_register(__m512i lanes) {
  asm("" : "+v"(lanes));
  return lanes;
}
#endif
template <class Value>
const Value& in_register(const Value& value) {
  return value;
}

/// How elements of a type are multiplied: `step` of them at a time, x as it was prepared. An element of the
/// depth always meets the same lane of the sum.
template <class T>
struct Multiply;

template <>
struct Multiply<float> {
  using Prepared = float;
  static constexpr int64_t step = lane_count;
  static Lanes weights(const float* w) { return Lanes::load(w); }
  static Lanes row(const float* x) { return Lanes::load(x); }
  static Lanes add(const Lanes& w, const Lanes& x, const Lanes& sum) { return fused(w, x, sum); }
  static void prepare(const float* from, float* to) { std::copy(from, from + step, to); }
};

template <>
struct Multiply<float16> {
  using Prepared = float;
  static constexpr int64_t step = lane_count;
  static Lanes weights(const float16* w) { return Lanes::load(w); }
  static Lanes row(const float* x) { return Lanes::load(x); }
  static Lanes add(const Lanes& w, const Lanes& x, const Lanes& sum) { return fused(w, x, sum); }
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
  static __m512i row(const bfloat16* x) { return _mm512_loadu_si512(x); }
  static Lanes add(const __m512i& w, const __m512i& x, const Lanes& sum) {
    return {_mm512_dpbf16_ps(sum.values, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x))};
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
  static LanePair row(const float* x) { return {Lanes::load(x), Lanes::load(x + lane_count)}; }
  static Lanes add(const LanePair& w, const LanePair& x, const Lanes& sum) {
    return fused(w.second, x.second, fused(w.first, x.first, sum));
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

/// How rows are shared among passes of at most most_tile_rows.
struct Passes {
  explicit Passes(int64_t of_rows) : rows(of_rows), count((of_rows + most_tile_rows - 1) / most_tile_rows) {}
  int64_t begin(int64_t pass) const { return pass * rows / count; }
  int64_t of(int64_t row) const { return ((row + 1) * count - 1) / rows; }

  int64_t rows;
  int64_t count;
};

/// One call with plain pointers; x as it was prepared: the rows of a pass side by side, a step of each after
/// the other, padded with zeros.
template <class T, class Out>
struct RowCall {
  const typename Multiply<T>::Prepared* x;
  const T* w;
  const float* bias;
  Out* y;
  Passes passes;
  int64_t columns;
  int64_t depth;
};

/// rows × columns elements of y from `column` on, of the rows of a pass.
template <class T, class Out, int rows, int columns>
void multiply_tile(const RowCall<T, Out>& call, int64_t pass, int64_t column) {
  using How = Multiply<T>;
  constexpr int64_t line = 64 / sizeof(T);
  const int64_t first = call.passes.begin(pass);
  const auto* const x = call.x + first * padded<T>(call.depth);
  const T* const w = call.w + column * call.depth;
  Lanes sums[rows][columns];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < columns; ++c) sums[r][c] = Lanes::zero();
  }
  const auto advance = [&](const T* weights, int64_t weights_row, int64_t k) {
    decltype(How::row(x)) left[rows];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      left[r] = How::row(x + k * rows + r * How::step);
      if constexpr (rows > 1) left[r] = in_register(left[r]);
    }
#pragma GCC unroll 8
    for (int c = 0; c < columns; ++c) {
      auto right = How::weights(weights + c * weights_row);
      if constexpr (rows > 1) right = in_register(right);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) sums[r][c] = How::add(right, left[r], sums[r][c]);
    }
  };
  // The next tile's weights lie behind this one's. Every pass asks for its share of them, so that memory is
  // read while the later passes, too, multiply. One column after the other is read as fast without.
  const int64_t each = (columns + call.passes.count - 1) / call.passes.count * (How::step / line);
  const int64_t whole = call.depth / How::step * How::step;
  const T* ahead = w + columns * call.depth + pass * each * (whole / How::step) * line;
  for (int64_t k = 0; k < whole; k += How::step) {
    if constexpr (columns > 1) {
      for (int64_t part = 0; part < each; ++part, ahead += line) __builtin_prefetch(ahead, 0, 2);
    }
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
  std::array<float, columns> bias{};
  if (call.bias != nullptr) std::copy_n(call.bias + column, columns, bias.data());
  Out* y = call.y + first * call.columns + column;
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r, y += call.columns) {
#pragma GCC unroll 2
    for (int c = 0; c < columns; c += 4) {
      const auto sum = [&](int i) { return sums[r][std::min(c + i, columns - 1)]; };
      const std::array<float, 4> values = Lanes::sums(sum(0), sum(1), sum(2), sum(3));
      const auto begin = static_cast<size_t>(c);
      const auto count = static_cast<size_t>(std::min(4, columns - c));
#pragma GCC unroll 4
      for (size_t i = 0; i < count; ++i) store(y[begin + i], values[i] + bias[begin + i]);
    }
  }
}

template <class T, class Out>
using Tile = void (*)(const RowCall<T, Out>&, int64_t, int64_t);

template <class T, class Out, int columns, int... rows>
constexpr std::array<Tile<T, Out>, most_tile_rows> tiles_of(std::integer_sequence<int, rows...>) {
  return {multiply_tile<T, Out, rows + 1, columns>...};
}

template <class T, class Out>
void multiply_columns(const RowCall<T, Out>& call, int64_t begin, int64_t end) {
  constexpr auto numbers = std::make_integer_sequence<int, most_tile_rows>();
  static constexpr auto wide = tiles_of<T, Out, tile_columns>(numbers);
  static constexpr auto narrow = tiles_of<T, Out, 1>(numbers);
  for (int64_t column = begin; column < end;) {
    const bool fits = call.passes.rows > 1 && column + tile_columns <= end;
    for (int64_t pass = 0; pass < call.passes.count; ++pass) {
      const auto rows = static_cast<size_t>(call.passes.begin(pass + 1) - call.passes.begin(pass));
      (fits ? wide : narrow)[rows - 1](call, pass, column);
    }
    column += fits ? tile_columns : 1;
  }
}

/// A row of x, padded with zeros to whole steps, a step every `stride` elements.
template <class T>
void prepare_row(const T* from, int64_t depth, int64_t stride, typename Multiply<T>::Prepared* out) {
  constexpr int64_t step = Multiply<T>::step;
  int64_t k = 0;
  for (; k + step <= depth; k += step, out += stride) Multiply<T>::prepare(from + k, out);
  if (k == depth) return;
  std::array<T, static_cast<size_t>(step)> tail{};
  std::copy(from + k, from + depth, tail.data());
  Multiply<T>::prepare(tail.data(), out);
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
    const Passes passes(rows);
    parallel_blocks(rows, [=](int64_t row) {
      const int64_t pass = passes.of(row);
      const int64_t first = passes.begin(pass);
      prepare_row(given + row * depth, depth, (passes.begin(pass + 1) - first) * Multiply<T>::step,
                  prepared + first * padded<T>(depth) + (row - first) * Multiply<T>::step);
    });
    const auto multiply = [&]<class Out>(Out* to) {
      const RowCall<T, Out> call{prepared, static_cast<const T*>(w), bias, to, passes, columns_, depth};
      parallel_ranges(columns_, column_grain,
                      [&](int64_t begin, int64_t end) { multiply_columns(call, begin, end); });
    };
    if (out_ == DType::fp32) {
      multiply(static_cast<float*>(y));
    } else {
      multiply(static_cast<T*>(y));
    }
  });
}

}  // namespace penstock::cpu
