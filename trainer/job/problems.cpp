#include "trainer/job/problems.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace penstock {
namespace {

constexpr size_t kShownWidth = 100;
constexpr size_t kShownProblems = 50;

std::string_view line_of(std::string_view text, int line) {
  for (; line > 1; --line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  return text;
}

// Bytes of the code point that starts at `at`; 0 if they are not valid UTF-8.
size_t code_point_bytes(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  size_t bytes = 0;
  if (lead < 0x80) bytes = 1;
  if (lead >= 0xc2 && lead < 0xe0) bytes = 2;
  if (lead >= 0xe0 && lead < 0xf0) bytes = 3;
  if (lead >= 0xf0 && lead < 0xf5) bytes = 4;
  if (bytes == 0 || at + bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) return 0;
  }
  return bytes;
}

// The line cut into printable cells, one a code point: tabs become blanks, what a terminal would act on
// becomes '?'.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (size_t at = 0; at < line.size();) {
    const size_t bytes = code_point_bytes(line, at);
    const auto byte = static_cast<unsigned char>(line[at]);
    if (bytes == 0 || (byte < 0x20 && byte != '\t') || byte == 0x7f) {
      cells.emplace_back("?");
      ++at;
      continue;
    }
    const bool control = bytes == 2 && byte == 0xc2 && static_cast<unsigned char>(line[at + 1]) < 0xa0;
    cells.emplace_back(byte == '\t' ? " " : control ? "?" : line.substr(at, bytes));
    at += bytes;
  }
  return cells;
}

// The line with a caret under `column`, cut to a readable width around it.
std::string pointed(std::string_view line, int column, const std::string& margin) {
  const std::vector<std::string> cells = cells_of(line);
  const size_t caret = std::min(static_cast<size_t>(std::max(column, 1)) - 1, cells.size());
  size_t begin = 0;
  if (cells.size() > kShownWidth && caret > kShownWidth / 2) begin = caret - kShownWidth / 2;
  const size_t end = std::min(cells.size(), begin + kShownWidth);
  std::string shown = begin > 0 ? "…" : "";
  for (size_t i = begin; i < end; ++i) shown += cells[i];
  if (end < cells.size()) shown += "…";
  const std::string blank(margin.size(), ' ');
  const std::string under(caret - begin + (begin > 0 ? 1 : 0), ' ');
  return fmt::format("  {} | {}\n  {} | {}^\n", margin, shown, blank, under);
}

}  // namespace

Problems::Problems(std::string file_name, std::string_view file_text, std::vector<std::string> arguments,
                   std::string what)
    : file_name_(std::move(file_name)),
      file_text_(file_text),
      arguments_(std::move(arguments)),
      what_(std::move(what)) {}

void Problems::add(Place place, std::string message) {
  found_.push_back({place, std::move(message)});
}

std::string Problems::show(const Problem& problem) const {
  const Place& place = problem.place;
  if (place.source > 0) {
    const std::string& argument = arguments_.at(static_cast<size_t>(place.source) - 1);
    return fmt::format("--set: {}\n{}", problem.message, pointed(argument, place.column, "--set"));
  }
  if (place.line == 0) return fmt::format("{}: {}\n", file_name_, problem.message);
  return fmt::format(
      "{}:{}:{}: {}\n{}", file_name_, place.line, place.column, problem.message,
      pointed(line_of(file_text_, place.line), place.column, fmt::format("{:>5}", place.line)));
}

std::string Problems::text() const {
  std::vector<Problem> sorted = found_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem& a, const Problem& b) {
    const auto rank = [](const Place& place) {
      // What stands nowhere (a missing section) comes after what can be pointed at.
      return std::tuple(place.source == 0 && place.line == 0, place.source, place.line, place.column);
    };
    return rank(a.place) < rank(b.place);
  });
  std::string out;
  for (size_t i = 0; i < std::min(sorted.size(), kShownProblems); ++i) out += show(sorted[i]);
  if (sorted.size() > kShownProblems) out += fmt::format("… and {} more\n", sorted.size() - kShownProblems);
  return out + fmt::format("{} problem{} in the {}\n", found_.size(), found_.size() == 1 ? "" : "s", what_);
}

void Problems::throw_if_any() const {
  if (!found_.empty()) throw JobError(text(), found_.size());
}

}  // namespace penstock
