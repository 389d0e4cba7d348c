#include "parallel/schedule/nearest.h"

#include <algorithm>
#include <cctype>

namespace penstock {
namespace {

constexpr size_t kLongest = 64;  // longer words are no typing errors, and the distance is quadratic

std::string folded(const std::string& word) {
  std::string out;
  for (const char c : word) {
    out += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

// Optimal string alignment distance (Damerau–Levenshtein without a second edit of a swapped pair).
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  if (word.size() > kLongest) return "";
  const std::string wanted = folded(word);
  std::string best;
  size_t fewest = 0;
  for (const std::string& candidate : known) {
    const std::string other = folded(candidate);
    const size_t longer = std::max(wanted.size(), other.size());
    const size_t allowed = std::max<size_t>(1, longer / 3);
    if (longer - std::min(wanted.size(), other.size()) > allowed) continue;
    const size_t edits = distance(wanted, other);
    if (edits > allowed || edits == longer) continue;
    if (best.empty() || edits < fewest) {
      best = candidate;
      fewest = edits;
    }
  }
  return best;
}

}  // namespace penstock
