#pragma once

#include <cstdint>

namespace penstock::data {

/// How a token is stored; the numbers are those of Megatron's index files, which have none for uint32.
enum class TokenType : uint8_t {
  uint8 = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  uint16 = 8,
  uint32 = 9
};

/// Bytes of a token.
int64_t token_bytes(TokenType type);
const char* token_type_name(TokenType type);

/// The type the writer uses for ids below `vocabulary`.
TokenType token_type_for(int64_t vocabulary);

}  // namespace penstock::data
