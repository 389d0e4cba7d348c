#include "data/token_type.h"

#include "data/index_layout.h"

namespace penstock::data {

int64_t token_bytes(TokenType type) {
  switch (type) {
    case TokenType::uint8:
    case TokenType::int8:
      return 1;
    case TokenType::int16:
    case TokenType::uint16:
      return 2;
    case TokenType::int32:
    case TokenType::uint32:
      return 4;
    case TokenType::int64:
      return 8;
  }
  return 0;
}

const char* token_type_name(TokenType type) {
  switch (type) {
    case TokenType::uint8:
      return "uint8";
    case TokenType::int8:
      return "int8";
    case TokenType::int16:
      return "int16";
    case TokenType::int32:
      return "int32";
    case TokenType::int64:
      return "int64";
    case TokenType::uint16:
      return "uint16";
    case TokenType::uint32:
      return "uint32";
  }
  return "unknown";
}

TokenType token_type_for(int64_t vocabulary) {
  return vocabulary < index_layout::uint16_vocabulary_limit ? TokenType::uint16 : TokenType::int32;
}

}  // namespace penstock::data
