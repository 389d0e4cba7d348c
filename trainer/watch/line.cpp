#include "trainer/watch/line.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/utf8.h"

namespace penstock::watch {
namespace {

// Bytes of the first `columns` characters.
size_t bytes_of(std::string_view text, int columns) {
  size_t at = 0;
  for (; columns > 0 && at < text.size(); --columns)
    at += std::max<size_t>(1, data::utf8_character(text.substr(at)));
  return at;
}

// Letters of the alphabets that are written from left to right, a column each: Latin, Greek, Cyrillic, …;
// then punctuation, arrows, mathematics, blocks. Not: combining marks, right-to-left, East Asian, emoji.
bool one_column(char32_t c) {
  return (c >= 0x20 && c < 0x7f) || (c >= 0xa1 && c < 0x300 && c != 0xad) || (c >= 0x370 && c < 0x483) ||
         (c >= 0x48a && c < 0x590) || (c >= 0x1e00 && c < 0x2000) || (c >= 0x2010 && c < 0x2028) ||
         (c >= 0x2030 && c < 0x205f) || (c >= 0x2190 && c < 0x231a) || (c >= 0x2500 && c < 0x25fd);
}

std::string code_of(const Line::Piece& piece) {
  switch (piece.ink) {
    case Ink::plain:
      return "";
    case Ink::dim:
      return "\x1b[2m";
    case Ink::strong:
      return "\x1b[1m";
    case Ink::good:
      return "\x1b[38;5;71m";
    case Ink::warning:
      return "\x1b[38;5;208m";
    case Ink::alarm:
      return "\x1b[1;38;5;203m";
    case Ink::accent:
      return "\x1b[38;5;74m";
    case Ink::cause: {
      const run_view::CauseLook& look = look_of(piece.cause);
      return fmt::format("\x1b[38;5;{};48;5;{}m", look.dark_text ? 16 : 231, look.terminal);
    }
  }
  return "";
}

}  // namespace

int columns_of(std::string_view text) {
  int columns = 0;
  for (size_t at = 0; at < text.size(); ++columns)
    at += std::max<size_t>(1, data::utf8_character(text.substr(at)));
  return columns;
}

Line& Line::add(std::string_view text, Ink ink) {
  const int columns = columns_of(text);
  pieces_.push_back({std::string(text), columns, ink, run_view::Cause::forward});
  columns_ += columns;
  return *this;
}

Line& Line::add(std::string_view text, run_view::Cause cause) {
  add(text, Ink::cause);
  pieces_.back().cause = cause;
  return *this;
}

Line& Line::pad_to(int column, bool apart) {
  const int missing = std::max(column - columns_, apart ? 1 : 0);
  return missing > 0 ? add(std::string(static_cast<size_t>(missing), ' ')) : *this;
}

void Line::clip(int columns) {
  while (columns_ > columns && !pieces_.empty()) {
    Piece& last = pieces_.back();
    const int keep = last.columns - (columns_ - columns);
    columns_ -= last.columns;
    if (keep <= 0) {
      pieces_.pop_back();
      continue;
    }
    last.text.resize(bytes_of(last.text, keep));
    last.columns = keep;
    columns_ += keep;
  }
}

std::string Line::text(const Abilities& abilities) const {
  std::string out;
  for (const Piece& piece : pieces_) {
    const std::string code = abilities.colour ? code_of(piece) : "";
    out += code + piece.text + (code.empty() ? "" : "\x1b[0m");
  }
  // Spaces at the end of a line are noise in a log.
  if (!abilities.colour) out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

std::string shown(std::string_view foreign, const Abilities& abilities) {
  std::string made;
  for (size_t at = 0; at < foreign.size();) {
    const std::string_view rest = foreign.substr(at);
    const size_t bytes = data::utf8_character(rest);
    const char32_t c = bytes == 0 ? 0 : data::decode_utf8(rest.substr(0, bytes));
    if (c == '\n' || c == '\t') {
      made += ' ';
    } else if (one_column(c) && (abilities.utf8 || bytes == 1)) {
      made += rest.substr(0, bytes);
    } else {
      made += '?';
    }
    at += std::max<size_t>(1, bytes);
  }
  return made;
}

std::string cut(std::string_view text, int columns, const Abilities& abilities) {
  if (columns_of(text) <= columns) return std::string(text);
  const std::string_view mark = abilities.utf8 ? "…" : "..";
  const int room = columns - columns_of(mark);
  if (room <= 0) return std::string(text.substr(0, bytes_of(text, std::max(0, columns))));
  return std::string(text.substr(0, bytes_of(text, room))) + std::string(mark);
}

std::string cut_front(std::string_view text, int columns, const Abilities& abilities) {
  const int all = columns_of(text);
  if (all <= columns) return std::string(text);
  const std::string_view mark = abilities.utf8 ? "…" : "..";
  const int room = std::max(0, columns - columns_of(mark));
  return std::string(mark) + std::string(text.substr(bytes_of(text, all - room)));
}

}  // namespace penstock::watch
