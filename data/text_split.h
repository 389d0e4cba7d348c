#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "data/utf8.h"

namespace penstock::data {

/// GPT-2's split: contractions, words, numbers, other signs (each with one space in front), white space.
extern const char* const gpt2_split_pattern;

/// A compiled split pattern (PCRE2, UTF, JIT where the machine has it). Immutable, shared between threads.
class SplitPattern {
 public:
  /// Read as pcre2_split_pattern says. Throws DataError when the pattern is not a regular expression.
  explicit SplitPattern(std::string pattern);
  ~SplitPattern();
  SplitPattern(const SplitPattern&) = delete;
  SplitPattern& operator=(const SplitPattern&) = delete;

  const std::string& text() const { return text_; }

 private:
  friend class TextSplitter;
  struct Code;
  std::string text_;
  std::unique_ptr<Code> code_;
};

/// Cuts text into the chunks that merges may not cross. One per thread (it holds the matcher's scratch
/// memory).
///
/// Any bytes are text: a maximal run of bytes that are not valid UTF-8 is a chunk of its own, what lies
/// between such runs is split by the pattern, what the pattern does not match is a chunk too, and a chunk
/// longer than `max_chunk_bytes` is cut there. So the chunks, in order, are the text.
class TextSplitter {
 public:
  static constexpr size_t max_chunk_bytes = size_t{1} << 20;

  /// `pattern` must outlive the splitter.
  explicit TextSplitter(const SplitPattern& pattern);
  ~TextSplitter();
  TextSplitter(TextSplitter&&) noexcept;
  TextSplitter(const TextSplitter&) = delete;
  TextSplitter& operator=(const TextSplitter&) = delete;

  /// Calls visit(chunk) for each chunk.
  template <class Visit>
  void split(std::string_view text, Visit&& visit) {
    const auto emit = [&visit](std::string_view chunk) {
      for (; chunk.size() > max_chunk_bytes; chunk.remove_prefix(max_chunk_bytes)) {
        visit(chunk.substr(0, max_chunk_bytes));
      }
      if (!chunk.empty()) visit(chunk);
    };
    while (!text.empty()) {
      const std::string_view valid = text.substr(0, valid_utf8_prefix(text));
      for (size_t at = 0; at < valid.size();) {
        const Range found = match(valid, at);
        emit(valid.substr(at, found.begin - at));
        emit(valid.substr(found.begin, found.end - found.begin));
        at = found.end;
      }
      text.remove_prefix(valid.size());
      const size_t invalid = invalid_utf8_prefix(text);
      emit(text.substr(0, invalid));
      text.remove_prefix(invalid);
    }
  }

 private:
  struct Range {
    size_t begin;
    size_t end;
  };
  // The next match at or after `at`, never empty; {size, size} when there is none.
  Range match(std::string_view valid, size_t at) const;

  struct Scratch;
  const SplitPattern* pattern_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace penstock::data
