#include "data/mended_json.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "data/utf8.h"

namespace penstock::data {
namespace {

constexpr size_t escape_bytes = 6;  // \uXXXX

// The UTF-16 code unit that `text` begins with as an escape.
std::optional<uint16_t> escaped_unit(std::string_view text) {
  if (text.size() < escape_bytes || text.substr(0, 2) != "\\u") return std::nullopt;
  uint16_t unit = 0;
  const char* const end = text.data() + escape_bytes;
  if (std::from_chars(text.data() + 2, end, unit, 16).ptr != end) return std::nullopt;
  return unit;
}

bool is_high(uint16_t unit) {
  return (unit & 0xFC00U) == 0xD800U;
}
bool is_low(uint16_t unit) {
  return (unit & 0xFC00U) == 0xDC00U;
}

// Takes an escape from the front of `rest`.
void mend_escape(std::string_view& rest, char32_t replacement, std::string& out) {
  const auto unit = escaped_unit(rest);
  size_t bytes = unit ? escape_bytes : 1;
  if (unit && is_high(*unit)) {
    const auto second = escaped_unit(rest.substr(escape_bytes));
    if (second && is_low(*second)) bytes += escape_bytes;
  }
  if (!unit && rest.size() > 1 && utf8_character(rest.substr(1)) == 1) bytes = 2;  // such as \\ and \"
  if (unit && bytes == escape_bytes && (is_high(*unit) || is_low(*unit))) {
    append_utf8(replacement, out);
  } else {
    out += rest.substr(0, bytes);
  }
  rest.remove_prefix(bytes);
}

}  // namespace

std::string mended_json(std::string_view json, char32_t replacement) {
  std::string out;
  out.reserve(json.size());
  for (std::string_view rest = json; !rest.empty();) {
    if (rest.front() == '\\') {
      mend_escape(rest, replacement, out);
      continue;
    }
    const size_t length = utf8_character(rest);
    if (length > 0) {
      out += rest.substr(0, length);
      rest.remove_prefix(length);
    } else {
      append_utf8(replacement, out);
      rest.remove_prefix(invalid_utf8_prefix(rest));
    }
  }
  return out;
}

}  // namespace penstock::data
