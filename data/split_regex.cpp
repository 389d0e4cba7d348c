#include "data/split_regex.h"

#include <cctype>

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/text_split.h"

// Unicode's White_Space property, for use inside [].
#define PENSTOCK_WHITE_SPACE \
  R"(\x09-\x0d\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"

namespace penstock::data {
namespace {

constexpr std::string_view white_space = PENSTOCK_WHITE_SPACE;

bool is_one_of(char sign, std::string_view set) {
  return set.find(sign) != std::string_view::npos;
}

bool is_letter_or_digit(char sign) {
  return std::isalnum(static_cast<unsigned char>(sign)) != 0;
}

class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) one();
    if (in_class_) refuse("a class that does not end");
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(fmt::format(
        "split pattern `{}`: character {}: found {}, expected what every library reads alike; use "
        "a tokenizer with such a pattern",
        pattern_, at_, what));
  }

  bool starts(std::string_view text) const { return pattern_.substr(at_, text.size()) == text; }

  void copy(size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }

  void one() {
    const char sign = pattern_[at_];
    if (sign == '\\') return escape();
    if (in_class_) return in_class(sign);
    if (sign == '[') return open_class();
    if (sign == '(') return group();
    if (sign == '{') return repeat();
    if (is_one_of(sign, "^$.")) refuse(fmt::format("`{}`", sign));
    copy(1);
  }

  void escape() {
    if (at_ + 1 == pattern_.size()) refuse("`\\` at the end");
    const char sign = pattern_[at_ + 1];
    if (sign == 's' || sign == 'S') return space_class(sign);
    if (sign == 'p' || sign == 'P') return property();
    if (sign == 'x') return code_point();
    // \z, the end of the text, is one place for all; the others of its kind are not.
    const bool known = is_one_of(sign, "rntf") || (sign == 'z' && !in_class_);
    if (is_letter_or_digit(sign) && !known) refuse(fmt::format("`\\{}`", sign));
    copy(2);
  }

  void space_class(char sign) {
    if (!in_class_) {
      out_ += fmt::format("[{}{}]", sign == 'S' ? "^" : "", white_space);
    } else if (sign == 's') {
      out_ += white_space;
    } else {
      refuse("`\\S` inside a class");
    }
    at_ += 2;
  }

  void property() {
    const size_t end = pattern_.find('}', at_);
    if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' || end == std::string_view::npos) {
      refuse("a property without {name}");
    }
    copy(end + 1 - at_);
  }

  void code_point() {
    if (at_ + 2 < pattern_.size() && pattern_[at_ + 2] == '{') {
      const size_t end = pattern_.find('}', at_);
      if (end == std::string_view::npos) refuse("`\\x{` without an end");
      return copy(end + 1 - at_);
    }
    const auto digit = [&](size_t at) {
      return at < pattern_.size() && std::isxdigit(static_cast<unsigned char>(pattern_[at])) != 0;
    };
    if (!digit(at_ + 2) || !digit(at_ + 3)) refuse("`\\x` without two digits");
    copy(4);
  }

  void open_class() {
    in_class_ = true;
    copy(1);
    if (at_ < pattern_.size() && pattern_[at_] == '^') copy(1);
    if (at_ < pattern_.size() && pattern_[at_] == ']') refuse("`]` as a class's first");
  }

  void in_class(char sign) {
    if (sign == '[') refuse("`[` inside a class");
    if (starts("&&")) refuse("`&&` inside a class");
    if (sign == ']') in_class_ = false;
    copy(1);
  }

  void group() {
    if (starts("(*")) refuse("`(*`");
    if (!starts("(?")) return copy(1);
    for (const std::string_view known : {"(?:", "(?i:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (starts(known)) return copy(known.size());
    }
    refuse(fmt::format("`{}`", pattern_.substr(at_, 4)));
  }

  void repeat() {
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) refuse("`{` without an end");
    if (end + 1 < pattern_.size() && pattern_[end + 1] == '+') refuse("`+` behind `}`");
    size_t commas = 0;
    for (const char sign : pattern_.substr(at_ + 1, end - at_ - 1)) {
      if (sign == ',') ++commas;
      if (sign != ',' && std::isdigit(static_cast<unsigned char>(sign)) == 0) refuse("a strange repeat");
    }
    // {,n} is 0 to n for some and plain text for others.
    if (commas > 1 || !is_letter_or_digit(pattern_[at_ + 1])) refuse("a strange repeat");
    copy(end + 1 - at_);
  }

  std::string_view pattern_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

// GPT-2's with \s written out, as the fingerprints of existing token files have it.
const char* const gpt2_split_pattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+)"
    R"(| ?[^)" PENSTOCK_WHITE_SPACE R"(\p{L}\p{N}]+)"
    R"(|[)" PENSTOCK_WHITE_SPACE R"(]+(?![^)" PENSTOCK_WHITE_SPACE R"(])|[)" PENSTOCK_WHITE_SPACE R"(]+)";

std::string pcre2_split_pattern(std::string_view pattern) {
  return Translation(pattern).run();
}

// cl100k and o200k: openai_public.py of tiktoken 0.14, where `$` is the end of the text and {1,3}+
// possessive. llama3 and qwen2: their tokenizer.json.
const std::vector<NamedSplit>& named_splits() {
  static const std::vector<NamedSplit> splits{
      {"gpt2", gpt2_split_pattern},
      {"r50k", gpt2_split_pattern},
      {"p50k", gpt2_split_pattern},
      {"cl100k",
       R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++\z|\s*[\r\n]|\s+(?!\S)|\s)"},
      {"o200k",
       R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
       R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
       R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
      {"llama3",
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
      {"qwen2",
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
  };
  return splits;
}

}  // namespace penstock::data
