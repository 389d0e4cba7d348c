#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace penstock::data {

/// XXH3, 64 bits, of bytes that arrive in pieces; a number is hashed as 8 little-endian bytes, a text with
/// its length.
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void bytes(const void* data, size_t size);
  void number(uint64_t value);
  void text(std::string_view value);

  uint64_t value() const;
  void reset();
  /// 16 hexadecimal digits.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3, 64 bits, of a block of memory.
uint64_t hash_bytes(const void* data, size_t size);

std::string hash_hex(uint64_t hash);

}  // namespace penstock::data
