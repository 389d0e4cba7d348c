#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text_split.h"
#include "data/tokenizer.h"

namespace penstock::data {

struct BpeOptions {
  int64_t vocabulary = 0;     ///< tokens wanted in all: special ones, the 256 bytes, merges
  int64_t min_frequency = 2;  ///< a pair that occurs less often is not merged
  std::vector<std::string> special{end_of_text_name};
};

/// Trains a byte-level BPE vocabulary. Tokens come in the order special, bytes (by their printable
/// character), merges. Merges and ties follow Hugging Face's trainer: the most frequent pair first, of equals
/// the one of smallest ids; a merge whose bytes are a token already yields that token. Text is split line by
/// line (a line keeps its end).
class BpeTrainer {
 public:
  /// The smallest vocabulary that `options` can ask for: the special tokens and the bytes.
  static int64_t smallest_vocabulary(const BpeOptions& options);

  /// Throws DataError when the vocabulary asked for is smaller than that.
  explicit BpeTrainer(BpeOptions options);

  /// Counts the chunks of a piece of text. A line may be cut between pieces after a letter and before a
  /// space.
  void add_text(std::string_view text);

  uint64_t bytes_seen() const { return bytes_; }

  /// Called with (tokens made, tokens wanted) now and then.
  using Progress = std::function<void(int64_t, int64_t)>;

  /// Trains on all text added. The vocabulary is smaller than wanted when no pair is frequent enough any
  /// more.
  Vocabulary train(const Progress& progress = {}) const;

 private:
  struct ChunkHash {
    using is_transparent = void;
    size_t operator()(std::string_view chunk) const;
  };

  BpeOptions options_;
  SplitPattern pattern_;
  TextSplitter splitter_;
  std::unordered_map<std::string, int64_t, ChunkHash, std::equal_to<>> counts_;
  uint64_t bytes_ = 0;
};

}  // namespace penstock::data
