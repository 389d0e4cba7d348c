#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "kernels/device/bfloat16.h"
#include "kernels/math/with_element.h"

/// What loops over elements share: the dispatch on the element type, and sums whose order is fixed.
namespace penstock::cpu {

using math::with_element;

/// to = value, rounded to the element type. Loops store through this: the compiler vectorises an assignment
/// of bits, not one of a class.
inline void store(float& to, float value) {
  to = value;
}
inline void store(bfloat16& to, float value) {
  to.bits = bfloat16(value).bits;
}
inline void store(float16& to, float value) {
  to.bits = float16(value).bits;
}

/// The largest of x (count), −∞ of none; NaN is passed over. Sixteen at a time, which the compiler makes
/// vectors of: asked one after the other, each would wait for the one before.
inline float largest(const float* x, int64_t count) {
  constexpr int64_t lanes = 16;
  std::array<float, lanes> lane;
  lane.fill(-std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int64_t j = 0; j < lanes; ++j) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  }
  for (int64_t j = 0; i + j < count; ++j) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  return *std::max_element(lane.begin(), lane.end());
}

/// term(0) + … + term(n − 1): 64 partial sums, element i in number i mod 64, added as a fixed tree. The order
/// depends on n alone, so the bits depend neither on alignment nor on the vector width (contract C1 f).
template <class Term>
inline float ordered_sum(int64_t n, const Term& term) {
  constexpr int lanes = 64;
  alignas(64) std::array<float, lanes> sums{};
  float* const sum = sums.data();
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
#pragma omp simd
    for (int lane = 0; lane < lanes; ++lane) sum[lane] += term(i + lane);
  }
  for (int lane = 0; i + lane < n; ++lane) sum[lane] += term(i + lane);
  for (int width = lanes / 2; width > 0; width /= 2) {
#pragma omp simd
    for (int lane = 0; lane < width; ++lane) sum[lane] += sum[lane + width];
  }
  return sum[0];
}

}  // namespace penstock::cpu
