#include "data/content_hash.h"

#include <array>
#include <new>

#include <fmt/format.h>
#include <xxhash.h>

namespace penstock::data {

struct ContentHash::State {
  State() : xxh(XXH3_createState()) {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  XXH3_state_t* xxh;
};

ContentHash::ContentHash() : state_(std::make_unique<State>()) {}
ContentHash::~ContentHash() = default;

void ContentHash::bytes(const void* data, size_t size) {
  if (size > 0) XXH3_64bits_update(state_->xxh, data, size);
}

void ContentHash::number(uint64_t value) {
  std::array<unsigned char, 8> little_endian{};
  for (auto& byte : little_endian) {
    byte = static_cast<unsigned char>(value);
    value >>= 8;
  }
  bytes(little_endian.data(), little_endian.size());
}

void ContentHash::text(std::string_view value) {
  number(value.size());
  bytes(value.data(), value.size());
}

uint64_t ContentHash::value() const {
  return XXH3_64bits_digest(state_->xxh);
}

void ContentHash::reset() {
  XXH3_64bits_reset(state_->xxh);
}

std::string ContentHash::hex() const {
  return hash_hex(value());
}

uint64_t hash_bytes(const void* data, size_t size) {
  return XXH3_64bits(data, size);
}

std::string hash_hex(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace penstock::data
