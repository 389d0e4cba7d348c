#include "data/byte_alphabet.h"

#include "data/utf8.h"

namespace penstock::data {
namespace {

constexpr char32_t first_substitute = 0x100;
constexpr char32_t alphabet_end = 0x144;

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, alphabet_end> byte{};  // by code point; -1: not in the alphabet
  std::array<uint8_t, 256> ordered{};

  Alphabet() {
    byte.fill(-1);
    char32_t next = first_substitute;
    for (int value = 0; value < 256; ++value) {
      const bool printable =
          (value >= 0x21 && value <= 0x7E) || (value >= 0xA1 && value <= 0xAC) || value >= 0xAE;
      const char32_t code = printable ? static_cast<char32_t>(value) : next++;
      character[static_cast<size_t>(value)] = code;
      byte[code] = static_cast<int16_t>(value);
    }
    size_t count = 0;
    for (const int16_t value : byte) {
      if (value >= 0) ordered[count++] = static_cast<uint8_t>(value);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) append_utf8(alphabet().character[static_cast<uint8_t>(byte)], text);
  return text;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_character(text);
    if (length == 0) return std::nullopt;
    const char32_t code = decode_utf8(text);
    if (code >= alphabet_end || alphabet().byte[code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(alphabet().byte[code]));
    text.remove_prefix(length);
  }
  return bytes;
}

const std::array<uint8_t, 256>& bytes_in_alphabet_order() {
  return alphabet().ordered;
}

}  // namespace penstock::data
