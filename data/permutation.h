#pragma once

#include <array>
#include <cstdint>

namespace penstock::data {

/// A pseudo-random permutation of [0, n) chosen by a key, in O(1) memory and time: a Feistel network over the
/// smallest power of two ≥ n, walked along its cycles until it lands in [0, n) again (Black and Rogaway,
/// "Ciphers with arbitrary finite domains", 2002). At most two steps a value on average.
class Permutation {
 public:
  /// n ≥ 1 and ≤ 2⁶³.
  Permutation(uint64_t n, uint64_t key);

  uint64_t size() const { return n_; }

  /// The place of i < n.
  uint64_t operator()(uint64_t i) const;

 private:
  static constexpr int rounds = 8;

  uint64_t once(uint64_t value) const;

  uint64_t n_;
  int low_bits_ = 0;
  int high_bits_ = 0;
  std::array<uint64_t, rounds> keys_{};
};

/// Mixes a key and a counter into 64 random bits (SplitMix64's finaliser over both; Steele, Lea and Flood
/// 2014).
uint64_t mix_bits(uint64_t key, uint64_t counter);

}  // namespace penstock::data
