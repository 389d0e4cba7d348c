#include "data/permutation.h"

#include <bit>
#include <stdexcept>

namespace penstock::data {
namespace {

uint64_t finalise(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

}  // namespace

uint64_t mix_bits(uint64_t key, uint64_t counter) {
  return finalise(finalise(key + 0x9E3779B97F4A7C15U) ^
                  (counter * 0xD1342543DE82EF95U + 0x632BE59BD9B4E019U));
}

Permutation::Permutation(uint64_t n, uint64_t key) : n_(n) {
  if (n == 0 || n > (uint64_t{1} << 63))
    throw std::invalid_argument("a permutation of 0 or more than 2^63 values");
  const int bits = n == 1 ? 0 : std::bit_width(n - 1);
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  for (int round = 0; round < rounds; ++round) {
    keys_[static_cast<size_t>(round)] = mix_bits(key, static_cast<uint64_t>(round));
  }
}

// Each round adds to one half a function of the other: invertible whatever the function, so a permutation,
// also where the halves differ by a bit.
uint64_t Permutation::once(uint64_t value) const {
  const uint64_t low_mask = (uint64_t{1} << low_bits_) - 1;
  const uint64_t high_mask = (uint64_t{1} << high_bits_) - 1;
  uint64_t low = value & low_mask;
  uint64_t high = value >> low_bits_;
  for (size_t round = 0; round < rounds; round += 2) {
    high = (high + mix_bits(keys_[round], low)) & high_mask;
    low = (low + mix_bits(keys_[round + 1], high)) & low_mask;
  }
  return (high << low_bits_) | low;
}

uint64_t Permutation::operator()(uint64_t i) const {
  do {
    i = once(i);
  } while (i >= n_);
  return i;
}

}  // namespace penstock::data
