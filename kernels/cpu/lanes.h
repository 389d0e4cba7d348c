#pragma once

#include <array>
#include <cstddef>

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#include <immintrin.h>
#else
#include <cmath>
#endif

#include "kernels/device/bfloat16.h"
#include "kernels/device/float16.h"

namespace penstock::cpu {

/// Number of floats in Lanes, whatever the processor's vectors: the structure of sums never depends on it.
inline constexpr int lane_count = 16;

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
/// As Lanes::sum(), from its second level on.
inline float sum_of_eight(__m256 values) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/// As sum_of_eight() of each, in the same order of additions.
inline std::array<float, 4> sums_of_eights(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  const __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(c, d, 0x20), _mm256_permute2f128_ps(c, d, 0x31));
  // Pairs of a, c | b, d.
  const __m256 two = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  const __m256 one = _mm256_add_ps(two, _mm256_permute_ps(two, 0xb1));
  std::array<float, 4> made;
  _mm_storeu_ps(made.data(), _mm_blend_ps(_mm256_castps256_ps128(one), _mm256_extractf128_ps(one, 1), 0xa));
  return made;
}
#endif

#if !defined(__AVX512F__)
template <class T>
std::array<float, lane_count> as_floats(const T* from) {
  std::array<float, lane_count> values;
  for (size_t i = 0; i < lane_count; ++i) values[i] = static_cast<float>(from[i]);
  return values;
}
#endif

/// 16 floats in registers, for loops whose accumulators must stay there; other loops are left to the
/// compiler. sum(): lane i plus lane i + 8, of those i plus i + 4, and so on. sums(): those of four, for less
/// than four times the work.
#if defined(__AVX512F__)
struct Lanes {
  __m512 values;

  static Lanes load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Lanes load(const bfloat16* from) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return {
        _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, bits), 16))};
  }
  static Lanes load(const float16* from) {
    return {_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
  }
  static Lanes zero() { return {_mm512_setzero_ps()}; }
  static Lanes broadcast(float value) { return {_mm512_set1_ps(value)}; }
  void store(float* to) const { _mm512_storeu_ps(to, values); }
  float sum() const { return sum_of_eight(halves()); }
  static std::array<float, 4> sums(Lanes a, Lanes b, Lanes c, Lanes d) {
    return sums_of_eights(a.halves(), b.halves(), c.halves(), d.halves());
  }

 private:
  /// Lane i plus lane i + 8.
  __m256 halves() const {
    // With a mask: plain extraction warns of an undefined value inside GCC 12's own header.
    const __m512d pairs = _mm512_castps_pd(values);
    return _mm256_add_ps(_mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xff, pairs, 0)),
                         _mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xff, pairs, 1)));
  }
};

/// a · b + c, rounded once.
inline Lanes fused(Lanes a, Lanes b, Lanes c) {
  return {_mm512_fmadd_ps(a.values, b.values, c.values)};
}
#elif defined(__AVX2__) && defined(__FMA__)
struct Lanes {
  __m256 low;
  __m256 high;

  static Lanes load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  template <class T>
  static Lanes load(const T* from) {
    return load(as_floats(from).data());
  }
  static Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Lanes broadcast(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  void store(float* to) const {
    _mm256_storeu_ps(to, low);
    _mm256_storeu_ps(to + 8, high);
  }
  float sum() const { return sum_of_eight(_mm256_add_ps(low, high)); }
  static std::array<float, 4> sums(const Lanes& a, const Lanes& b, const Lanes& c, const Lanes& d) {
    return sums_of_eights(_mm256_add_ps(a.low, a.high), _mm256_add_ps(b.low, b.high),
                          _mm256_add_ps(c.low, c.high), _mm256_add_ps(d.low, d.high));
  }
};

inline Lanes fused(const Lanes& a, const Lanes& b, const Lanes& c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
#else
struct Lanes {
  std::array<float, lane_count> values;

  static Lanes load(const float* from) {
    Lanes lanes;
    for (int i = 0; i < lane_count; ++i) lanes.values[static_cast<size_t>(i)] = from[i];
    return lanes;
  }
  template <class T>
  static Lanes load(const T* from) {
    return {as_floats(from)};
  }
  static Lanes zero() { return {}; }
  static Lanes broadcast(float value) {
    Lanes lanes;
    lanes.values.fill(value);
    return lanes;
  }
  void store(float* to) const {
    for (int i = 0; i < lane_count; ++i) to[i] = values[static_cast<size_t>(i)];
  }
  float sum() const {
    std::array<float, lane_count> sums = values;
    for (size_t width = lane_count / 2; width > 0; width /= 2) {
      for (size_t i = 0; i < width; ++i) sums[i] += sums[i + width];
    }
    return sums[0];
  }
  static std::array<float, 4> sums(const Lanes& a, const Lanes& b, const Lanes& c, const Lanes& d) {
    return {a.sum(), b.sum(), c.sum(), d.sum()};
  }
};

inline Lanes fused(const Lanes& a, const Lanes& b, Lanes c) {
  for (size_t i = 0; i < lane_count; ++i) c.values[i] = std::fma(a.values[i], b.values[i], c.values[i]);
  return c;
}
#endif

}  // namespace penstock::cpu
