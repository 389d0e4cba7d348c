#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::data {

/// Length of the longest valid UTF-8 prefix (RFC 3629: no overlong forms, no surrogates, nothing above
/// U+10FFFF).
size_t valid_utf8_prefix(std::string_view text);

/// Bytes that must be skipped at the front of `text`, which does not start with a valid character, until it
/// does.
size_t invalid_utf8_prefix(std::string_view text);

/// Length of the valid character at the front of `text`, or 0.
size_t utf8_character(std::string_view text);

/// The code point of a valid character of `utf8_character(text)` bytes.
char32_t decode_utf8(std::string_view text);

void append_utf8(char32_t code_point, std::string& out);

}  // namespace penstock::data
