#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// Elementary functions as straight-line code that the compiler vectorises, so that hot loops call no
/// library. Every operation in them is exactly rounded (std::fma is spelled out, contraction is off): an
/// element has the same bits in a vector body, in a tail and as a scalar (contract C1 f).
namespace penstock::cpu {

/// e^x to about 1 unit in the last place, with gradual underflow, 0 below −104 (and at −∞), ∞ above 88.73;
/// NaN stays. x = n ln 2 + r, |r| ≤ ln 2 / 2; Taylor series of e^r to r⁷ (error 5e-9); 2^n in two factors.
inline float vector_exp(float x) {
  constexpr float round_to_integer = 12582912.0F;  // 1.5 · 2²³: its unit in the last place is 1
  float clamped = x < -104.0F ? -104.0F : x;
  clamped = clamped > 89.0F ? 89.0F : clamped;
  const float shifted = std::fma(clamped, 1.44269504F, round_to_integer);
  const float n = shifted - round_to_integer;
  float r = std::fma(n, -0.693145751953125F, clamped);
  r = std::fma(n, -1.42860682e-6F, r);
  float p = 1.0F / 5040.0F;
  p = std::fma(p, r, 1.0F / 720.0F);
  p = std::fma(p, r, 1.0F / 120.0F);
  p = std::fma(p, r, 1.0F / 24.0F);
  p = std::fma(p, r, 1.0F / 6.0F);
  p = std::fma(p, r, 0.5F);
  p = std::fma(p, r, 1.0F);
  p = std::fma(p, r, 1.0F);
  // Unsigned arithmetic: defined for the bits of a NaN too, whose p keeps the NaN whatever the scale.
  const uint32_t whole = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(round_to_integer);
  const auto half = static_cast<uint32_t>(static_cast<int32_t>(whole) >> 1);
  const float scale1 = std::bit_cast<float>((half + 127U) << 23);
  const float scale2 = std::bit_cast<float>((whole - half + 127U) << 23);
  return p * scale1 * scale2;
}

/// ln x to about 1 unit in the last place for normal positive x. x = 2^n m, m in [√½, √2), ln m = 2 atanh(s),
/// s = (m − 1) / (m + 1), series to s⁹ (error 4e-10).
inline float vector_log(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t offset = bits - 0x3f3504f3U;  // the bits of √½: the exponent field now counts from there
  const auto exponent = static_cast<float>(static_cast<int32_t>(offset) >> 23);
  const float m = std::bit_cast<float>((offset & 0x007fffffU) + 0x3f3504f3U);
  const float f = m - 1.0F;
  const float s = f / (m + 1.0F);
  const float s2 = s * s;
  float p = 1.0F / 9.0F;
  p = std::fma(p, s2, 1.0F / 7.0F);
  p = std::fma(p, s2, 1.0F / 5.0F);
  p = std::fma(p, s2, 1.0F / 3.0F);
  // 2 s = f − s f exactly, which keeps the leading term f unrounded.
  const float tail = s * std::fma(2.0F * s2, p, -f);
  return std::fma(exponent, 0.693145751953125F, f + std::fma(exponent, 1.42860682e-6F, tail));
}

}  // namespace penstock::cpu
