#pragma once

#include <bit>
#include <cstdint>

namespace penstock {

/// IEEE binary16: 1 sign bit, 5 bits of exponent (bias 15), 10 of fraction. Conversion from fp32 rounds to
/// nearest, ties to even; what is too large becomes infinite, NaN stays NaN. Both ways are plain arithmetic
/// on bits without branches, so that loops over elements vectorise.
struct float16 {
  uint16_t bits = 0;

  float16() = default;
  explicit float16(float value) {
    constexpr uint32_t infinity = 0x7f800000U;
    constexpr uint32_t too_large = 0x47800000U;  // 2¹⁶
    constexpr uint32_t normal = 0x38800000U;     // 2⁻¹⁴
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (word >> 16) & 0x8000U;
    const uint32_t magnitude = word & 0x7fffffffU;
    // Adding ½ leaves multiples of 2⁻²⁴ in the fraction, rounded by the addition.
    const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    const uint32_t rounded = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    const uint32_t large = magnitude > infinity ? 0x7e00U : 0x7c00U;
    const uint32_t finite = magnitude < normal ? small : rounded;
    bits = static_cast<uint16_t>(sign | (magnitude >= too_large ? large : finite));
  }
  explicit operator float() const {
    const uint32_t sign = (static_cast<uint32_t>(bits) & 0x8000U) << 16;
    const uint32_t magnitude = (static_cast<uint32_t>(bits) & 0x7fffU) << 13;
    const uint32_t normal = magnitude + 0x38000000U;
    const uint32_t special = magnitude + 0x70000000U;
    // Without an exponent: the fraction in units of 2⁻²⁴.
    const float fraction = std::bit_cast<float>(magnitude + 0x38800000U) - std::bit_cast<float>(0x38800000U);
    const uint32_t small = std::bit_cast<uint32_t>(fraction);
    const uint32_t word = magnitude < 0x00800000U ? small : magnitude >= 0x0f800000U ? special : normal;
    return std::bit_cast<float>(sign | word);
  }
};
static_assert(sizeof(float16) == 2);

}  // namespace penstock
