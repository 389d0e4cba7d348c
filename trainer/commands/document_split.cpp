#include "trainer/commands/document_split.h"

#include <algorithm>
#include <cmath>

#include "data/permutation.h"

namespace penstock::commands {
namespace {

constexpr uint64_t draw_key = 0x76616C6964617465U;  // any constant
constexpr size_t farthest_line_end = size_t{1} << 16;

}  // namespace

bool DocumentDraw::is_validation(uint64_t document) const {
  if (fraction_ <= 0) return false;
  // Block b holds the documents from ceil(b / fraction) to before ceil((b + 1) / fraction): at least one, as
  // fraction < 1.
  const auto first_of = [this](double block) { return static_cast<uint64_t>(std::ceil(block / fraction_)); };
  double block = std::floor(static_cast<double>(document) * fraction_);
  if (first_of(block) > document) block -= 1;  // rounding at a block's border
  if (first_of(block + 1) <= document) block += 1;
  const uint64_t first = first_of(block);
  const uint64_t size = std::max<uint64_t>(first_of(block + 1) - first, 1);
  return document == first + data::mix_bits(draw_key, static_cast<uint64_t>(block)) % size;
}

size_t place_to_split(std::string_view text, size_t target) {
  const size_t line_end =
      text.substr(0, std::min(text.size(), target + farthest_line_end)).find('\n', target);
  if (line_end != std::string_view::npos) return line_end + 1;
  for (size_t at = std::max<size_t>(target, 1); at < text.size(); ++at) {
    const char before = text[at - 1];
    const bool letter = (before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z');
    if (letter && text[at] == ' ') return at;
  }
  return text.size();
}

}  // namespace penstock::commands
