#pragma once

#include <string>

namespace penstock {

/// `text` for a cell of a Markdown table.
inline std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace penstock
