#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::data {

/// Two token ids that stand side by side.
struct TokenPair {
  int32_t left = 0;
  int32_t right = 0;
  bool operator==(const TokenPair&) const = default;
};

/// Hash map from pairs of token ids (≥ 0) to V: open addressing, linear probing, at most half full, no
/// erasure.
template <class V>
class PairTable {
 public:
  explicit PairTable(size_t expected = 0) { resize(expected); }

  const V* find(TokenPair pair) const {
    const uint64_t key = key_of(pair);
    for (size_t at = start_of(key);; at = (at + 1) & mask_) {
      if (keys_[at] == key) return &values_[at];
      if (keys_[at] == empty) return nullptr;
    }
  }
  V* find(TokenPair pair) { return const_cast<V*>(static_cast<const PairTable*>(this)->find(pair)); }

  /// The pair's value, default-made when new. Invalidates pointers to values.
  V& operator[](TokenPair pair) {
    if (V* found = find(pair)) return *found;
    if (2 * (count_ + 1) > keys_.size()) resize(2 * count_ + 2);
    ++count_;
    return place(key_of(pair));
  }

  size_t size() const { return count_; }

  /// Calls visit(pair, value) for each entry, in no particular order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (size_t at = 0; at < keys_.size(); ++at) {
      if (keys_[at] == empty) continue;
      visit(TokenPair{static_cast<int32_t>(keys_[at] >> 32), static_cast<int32_t>(keys_[at])}, values_[at]);
    }
  }

 private:
  static constexpr uint64_t empty = ~uint64_t{0};

  static uint64_t key_of(TokenPair pair) {
    return (uint64_t{static_cast<uint32_t>(pair.left)} << 32) | static_cast<uint32_t>(pair.right);
  }
  size_t start_of(uint64_t key) const {
    key *= 0x9E3779B97F4A7C15U;  // Fibonacci hashing; the high bits are the mixed ones
    return static_cast<size_t>(key >> 32) & mask_;
  }
  V& place(uint64_t key) {
    size_t at = start_of(key);
    while (keys_[at] != empty) at = (at + 1) & mask_;
    keys_[at] = key;
    return values_[at];
  }
  void resize(size_t expected) {
    size_t capacity = 16;
    while (capacity < 2 * expected) capacity *= 2;
    std::vector<uint64_t> keys(capacity, empty);
    std::vector<V> values(capacity);
    keys.swap(keys_);
    values.swap(values_);
    mask_ = capacity - 1;
    for (size_t at = 0; at < keys.size(); ++at) {
      if (keys[at] != empty) place(keys[at]) = values[at];
    }
  }

  std::vector<uint64_t> keys_;
  std::vector<V> values_;
  size_t mask_ = 0;
  size_t count_ = 0;
};

}  // namespace penstock::data
