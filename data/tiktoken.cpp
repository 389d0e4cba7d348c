#include "data/tiktoken.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/mapped_file.h"
#include "data/split_regex.h"

namespace penstock::data {
namespace {

constexpr int32_t most_tokens = int32_t{1} << 26;
constexpr const char* correct_file = "get the file anew";

// RFC 4648 with its padding; nothing where the text is not that.
std::optional<std::string> from_base64(std::string_view text) {
  static constexpr std::string_view signs =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  std::string bytes;
  uint32_t bits = 0;
  int held = 0;
  for (const char sign : text) {
    const size_t value = signs.find(sign);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6) | static_cast<uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<char>(bits >> held));
    bits &= (1U << held) - 1;
  }
  return bytes;
}

class Reader {
 public:
  Reader(std::string origin, std::vector<SpecialToken> special) : origin_(std::move(origin)) {
    vocabulary_.special = std::move(special);
    for (const SpecialToken& token : vocabulary_.special) put(token.id, token.text, 0);
  }

  Vocabulary read(std::string_view text, std::string_view split) {
    for (const NamedSplit& known : named_splits()) {
      if (known.name == split) vocabulary_.split_pattern = std::string(known.pattern);
    }
    for (uint64_t line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view row = text.substr(0, end);
      if (row.ends_with('\r')) row.remove_suffix(1);
      if (!row.empty()) read_line(row, line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    finish();
    return std::move(vocabulary_);
  }

 private:
  [[noreturn]] void fail(uint64_t line, const std::string& found, const std::string& expected) const {
    const std::string place = line == 0 ? std::string() : fmt::format(": line {}", line);
    throw DataError(Fault{origin_ + place, {}, found, expected, correct_file});
  }

  void put(int32_t id, std::string bytes, uint64_t line) {
    if (id < 0 || id >= most_tokens) {
      fail(line, fmt::format("id {}", id), fmt::format("one from 0 to {}", most_tokens - 1));
    }
    if (!tokens_.emplace(id, std::move(bytes)).second)
      fail(line, fmt::format("id {} twice", id), "each id once");
  }

  void read_line(std::string_view row, uint64_t line) {
    const size_t space = row.find(' ');
    int32_t rank = 0;
    bool good = space != std::string_view::npos;
    if (good) {
      const char* end = row.data() + row.size();
      const auto parsed = std::from_chars(row.data() + space + 1, end, rank);
      good = parsed.ec == std::errc() && parsed.ptr == end;
    }
    auto bytes = good ? from_base64(row.substr(0, space)) : std::nullopt;
    if (!bytes || bytes->empty()) {
      fail(line, fmt::format("`{}`", row.substr(0, 40)), "a token in base64, a space, its rank");
    }
    if (!ids_.emplace(*bytes, rank).second) fail(line, "a token for the second time", "each token once");
    put(rank, std::move(*bytes), line);
  }

  void finish() {
    if (ids_.empty()) fail(0, "no token", "a line for each token");
    const int32_t last = tokens_.rbegin()->first;
    if (static_cast<size_t>(last) > 2 * tokens_.size() + 1024) {
      fail(0, fmt::format("ids up to {} for {} tokens", last, tokens_.size()), "ids without large gaps");
    }
    for (int32_t id = 0; id <= last; ++id) {
      const auto found = tokens_.find(id);
      if (found == tokens_.end()) vocabulary_.special.push_back({id, fmt::format("<|unused_{}|>", id)});
      vocabulary_.tokens.push_back(found == tokens_.end() ? vocabulary_.special.back().text : found->second);
    }
    vocabulary_.ignore_merges = true;
    // By the result's rank, then by the left part's: as transformers lists them.
    for (const auto& [id, bytes] : tokens_) {
      const auto whole = ids_.find(bytes);
      if (whole == ids_.end() || whole->second != id) continue;
      std::map<int32_t, int32_t> right_of;
      for (size_t cut = 1; cut < bytes.size(); ++cut) {
        const auto left = ids_.find(bytes.substr(0, cut));
        const auto right = ids_.find(bytes.substr(cut));
        if (left != ids_.end() && right != ids_.end()) right_of[left->second] = right->second;
      }
      for (const auto& [left, right] : right_of) vocabulary_.merges.push_back({left, right});
    }
  }

  std::string origin_;
  Vocabulary vocabulary_;
  std::map<int32_t, std::string> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace

Vocabulary load_tiktoken(const std::string& path, std::string_view split, std::vector<SpecialToken> special) {
  const MappedFile file(path);
  return parse_tiktoken(file.text(), path, split, std::move(special));
}

Vocabulary parse_tiktoken(std::string_view text, const std::string& origin, std::string_view split,
                          std::vector<SpecialToken> special) {
  return Reader(origin, std::move(special)).read(text, split);
}

}  // namespace penstock::data
