#pragma once

#include <array>
#include <cstdint>

namespace penstock::math {

/// Philox4x32-10 (Salmon et al., SC'11): four random words, a pure function of a 128-bit counter and a 64-bit
/// key. Known answer: counter 0, key 0 → 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// What a random number is for; part of every key, so that no two uses share numbers (contract C1 a).
enum class RandomPurpose : uint32_t {
  initialisation = 1,
  dropout = 2,
  stochastic_rounding = 3,
  sampling = 4,
  replay = 5
};

}  // namespace penstock::math
