#include "trainer/generated_text.h"

#include <algorithm>

namespace penstock {

GeneratedText::GeneratedText(const data::Tokenizer& tokenizer, std::span<const std::string> stops)
    : tokenizer_(tokenizer), stops_(stops) {
  for (const std::string& stop : stops) longest_stop_ = std::max(longest_stop_, stop.size());
}

bool GeneratedText::add(int32_t token) {
  if (token < 0 || token >= tokenizer_.size()) return stopped_;
  // A stop text may have begun before this token.
  const size_t before = bytes_.size();
  const size_t from = before - std::min(before, longest_stop_ == 0 ? 0 : longest_stop_ - 1);
  tokenizer_.decode(std::span(&token, 1), bytes_);
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, bytes_.find(stop, from));
  if (first == std::string::npos) return false;
  bytes_.resize(first);
  stopped_ = true;
  return true;
}

std::string_view GeneratedText::take() {
  if (stopped_) return take_rest();
  size_t held = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, bytes_.size()); length > held; --length) {
      if (bytes_.compare(bytes_.size() - length, length, stop, 0, length) == 0) held = length;
    }
  }
  return take_to(bytes_.size() - held);
}

std::string_view GeneratedText::take_rest() {
  return take_to(bytes_.size());
}

std::string_view GeneratedText::take_to(size_t end) {
  if (end <= taken_) return {};
  const std::string_view piece = std::string_view(bytes_).substr(taken_, end - taken_);
  taken_ = end;
  return piece;
}

}  // namespace penstock
