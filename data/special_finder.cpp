#include "data/special_finder.h"

#include <algorithm>

namespace penstock::data {

void SpecialFinder::Set::add(const SpecialToken& token) {
  if (token.text.empty()) return;
  const auto first = static_cast<uint8_t>(token.text.front());
  std::vector<Token>& same_first = by_first_byte[first];
  if (same_first.empty()) first_bytes.push_back(first);
  const auto shorter = std::find_if(same_first.begin(), same_first.end(), [&](const Token& other) {
    return other.text.size() < token.text.size();
  });
  same_first.insert(shorter, {token.text, token.id});
}

size_t SpecialFinder::Set::next_first_byte(std::string_view text, size_t from) const {
  if (first_bytes.size() == 1) return text.find(static_cast<char>(first_bytes.front()), from);
  for (; from < text.size(); ++from) {
    if (!by_first_byte[static_cast<uint8_t>(text[from])].empty()) return from;
  }
  return std::string_view::npos;
}

SpecialFinder::SpecialFinder(const std::vector<SpecialToken>& tokens) {
  for (const SpecialToken& token : tokens) {
    all_[token.normalized ? 1 : 0].add(token);
    if (!token.special) words_[token.normalized ? 1 : 0].add(token);
  }
}

SpecialFinder::Found SpecialFinder::find(std::string_view text, size_t from, SpecialText special,
                                         bool normalized) const {
  const Set& set = (special == SpecialText::plain ? words_ : all_)[normalized ? 1 : 0];
  if (set.first_bytes.empty()) return {};
  for (size_t at = set.next_first_byte(text, from); at != std::string_view::npos;
       at = set.next_first_byte(text, at + 1)) {
    for (const Token& token : set.by_first_byte[static_cast<uint8_t>(text[at])]) {
      if (text.compare(at, token.text.size(), token.text) == 0) return {at, token.text.size(), token.id};
    }
  }
  return {};
}

}  // namespace penstock::data
