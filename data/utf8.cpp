#include "data/utf8.h"

#include <cstdint>
#include <cstring>

namespace penstock::data {
namespace {

uint8_t byte_at(std::string_view text, size_t at) {
  return static_cast<uint8_t>(text[at]);
}

bool continues(std::string_view text, size_t at, uint8_t low = 0x80, uint8_t high = 0xBF) {
  return at < text.size() && byte_at(text, at) >= low && byte_at(text, at) <= high;
}

}  // namespace

// The table of well-formed sequences of the Unicode standard (3-7): only the second byte has special ranges.
size_t utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  const uint8_t lead = byte_at(text, 0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(text, 1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const uint8_t low = lead == 0xE0 ? 0xA0 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : 0xBF;
    return continues(text, 1, low, high) && continues(text, 2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const uint8_t low = lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xF4 ? 0x8F : 0xBF;
    return continues(text, 1, low, high) && continues(text, 2) && continues(text, 3) ? 4 : 0;
  }
  return 0;
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight = 0;
    if (at + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080U) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const size_t length = utf8_character(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

size_t invalid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && utf8_character(text.substr(at)) == 0) ++at;
  return at;
}

char32_t decode_utf8(std::string_view text) {
  const size_t length = utf8_character(text);
  if (length == 1) return byte_at(text, 0);
  char32_t code = byte_at(text, 0) & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) code = (code << 6) | (byte_at(text, i) & 0x3FU);
  return code;
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto push = [&out](char32_t byte) { out.push_back(static_cast<char>(static_cast<uint8_t>(byte))); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | (code_point >> 6));
    push(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    push(0xE0 | (code_point >> 12));
    push(0x80 | ((code_point >> 6) & 0x3F));
    push(0x80 | (code_point & 0x3F));
  } else {
    push(0xF0 | (code_point >> 18));
    push(0x80 | ((code_point >> 12) & 0x3F));
    push(0x80 | ((code_point >> 6) & 0x3F));
    push(0x80 | (code_point & 0x3F));
  }
}

}  // namespace penstock::data
