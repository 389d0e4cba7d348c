#pragma once

#include <bit>
#include <cstdint>

namespace penstock {

/// The upper half of an fp32. Conversion from fp32 rounds to nearest, ties to even; NaN stays NaN.
struct bfloat16 {
  uint16_t bits = 0;

  bfloat16() = default;
  explicit bfloat16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = word + 0x7fffu + ((word >> 16) & 1u);
    bits = static_cast<uint16_t>((nan ? (word | 0x00400000u) : rounded) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};
static_assert(sizeof(bfloat16) == 2);

/// A value as it will be read back once stored in T (contract C1 e: consumers read the stored value).
template <class T>
inline float stored(float value) {
  return static_cast<float>(static_cast<T>(value));
}

}  // namespace penstock
