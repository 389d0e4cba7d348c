#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/pair_table.h"
#include "data/special_finder.h"
#include "data/text_split.h"

namespace penstock::data {

/// The token that ends a document.
inline constexpr const char* end_of_text_name = "<|endoftext|>";
/// The same in vocabularies that have no such one (Llama 3's).
inline constexpr const char* other_end_of_text_name = "<|end_of_text|>";

/// What a vocabulary file says: all of a byte-level BPE tokenizer.
struct Vocabulary {
  std::vector<std::string> tokens;  ///< the bytes of token i (of a special token: its text)
  std::vector<TokenPair> merges;    ///< by rank; a merge's result is the token with the bytes of both
  std::vector<SpecialToken> special;
  std::string split_pattern = gpt2_split_pattern;
  bool ignore_merges = false;            ///< a chunk that is a token is that token, whatever the merges say
  bool nfc = false;                      ///< text is brought to Unicode's composed normal form first
  std::optional<int32_t> begin_of_text;  ///< the token in front of each text
};

/// A byte-level BPE tokenizer: immutable, shared between threads. Text is encoded by an Encoder.
class Tokenizer {
 public:
  struct Merged {
    int32_t rank = 0;
    int32_t token = 0;
  };

  /// Throws DataError (naming `origin`, a file) when a byte has no token, two tokens are equal, or a merge
  /// names a token that does not exist or yields none.
  explicit Tokenizer(Vocabulary vocabulary, const std::string& origin = "vocabulary");

  int64_t size() const { return static_cast<int64_t>(vocabulary_.tokens.size()); }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::optional<int32_t> end_of_text() const { return end_of_text_; }
  /// Put in front of each text where there is one.
  std::optional<int32_t> begin_of_text() const { return vocabulary_.begin_of_text; }
  /// XXH3 over tokens, merges, special tokens and pattern, in hexadecimal: equal where encoding is equal.
  const std::string& fingerprint() const { return fingerprint_; }

  /// Appends the bytes of `tokens`; special tokens appear as their text. Throws DataError for an id outside
  /// the vocabulary.
  void decode(std::span<const int32_t> tokens, std::string& out) const;
  std::string decode(std::span<const int32_t> tokens) const;

  const Merged* merge_of(TokenPair pair) const { return merges_.find(pair); }
  int32_t byte_token(uint8_t byte) const { return byte_tokens_[byte]; }
  /// The token of just these bytes, of a vocabulary that ignores merges for those; else none.
  std::optional<int32_t> whole_token(std::string_view bytes) const {
    const auto found = whole_.find(bytes);
    return found == whole_.end() ? std::nullopt : std::optional(found->second);
  }
  const SpecialFinder& special_finder() const { return special_finder_; }
  const SplitPattern& split_pattern() const { return *pattern_; }

 private:
  Vocabulary vocabulary_;
  std::unique_ptr<const SplitPattern> pattern_;
  PairTable<Merged> merges_;
  std::array<int32_t, 256> byte_tokens_{};
  std::unordered_map<std::string_view, int32_t> whole_;  // into vocabulary_
  SpecialFinder special_finder_;
  std::optional<int32_t> end_of_text_;
  std::string fingerprint_;
};

}  // namespace penstock::data
