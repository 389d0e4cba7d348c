#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/token_format.h"

namespace penstock::data {

/// What `<file>.meta.toml` says about a token file `<file>`: enough to refuse a wrong one without reading it.
struct SideCar {
  TokenFormat format = TokenFormat::megatron;
  std::optional<DocumentMark> mark;  ///< of a file without an index, where it is known
  TokenType type = TokenType::uint16;
  uint64_t tokens = 0;
  uint64_t documents = 0;
  int64_t vocabulary = 0;      ///< of the tokenizer; 0: not known
  std::string tokenizer;       ///< Tokenizer::fingerprint(); empty: not known
  int64_t largest_token = -1;  ///< -1: no tokens
  /// XXH3 of each block of `hash_block_bytes` from the first token on; the last may be shorter.
  std::vector<uint64_t> block_hashes;

  bool operator==(const SideCar&) const = default;
};

inline constexpr uint64_t hash_block_bytes = uint64_t{64} << 20;

std::string side_car_path(const std::string& token_file);

/// Nothing when there is no such file. Throws DataError when it is malformed.
std::optional<SideCar> read_side_car(const std::string& token_file);

/// The same of its text; `path` is for errors.
SideCar parse_side_car(const std::string& path, std::string_view text);

/// What write_side_car() writes.
std::string side_car_text(const SideCar& side_car);

void write_side_car(const std::string& token_file, const SideCar& side_car);

/// XXH3 over number, type and block hashes: one value for the whole file. Equal tokens stored as the same
/// type have the same in every format; as another type, another one.
std::string content_fingerprint(const SideCar& side_car);

}  // namespace penstock::data
