#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::data {

/// GPT-2's printable alphabet for bytes, used inside tokenizer.json: printable Latin-1 bytes stand for
/// themselves, the other 68 for U+0100…U+0143 in byte order.
std::string to_byte_alphabet(std::string_view bytes);

/// The bytes that `text` stands for, or nothing when a character of it is not in the alphabet (or not UTF-8).
std::optional<std::string> from_byte_alphabet(std::string_view text);

/// All bytes, ordered by the code point of their character: the order of the first 256 tokens of a new
/// vocabulary.
const std::array<uint8_t, 256>& bytes_in_alphabet_order();

}  // namespace penstock::data
