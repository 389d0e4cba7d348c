#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/content_hash.h"
#include "data/file_writer.h"
#include "data/side_car.h"

namespace penstock::data {

/// What a TokenWriter has brought to disk: with the partial files, all that another one needs to go on.
struct TokenWriterState {
  uint64_t tokens = 0;
  uint64_t documents = 0;
  int64_t largest_token = -1;
  std::vector<uint64_t> block_hashes;  ///< of whole blocks
  uint64_t sequences = 0;              ///< in the list of lengths
  int32_t last_length = 0;  ///< of the sequence behind them: whether it is its document's last is open
  int32_t length = 0;       ///< of the sequence that is being written
  bool operator==(const TokenWriterState&) const = default;
};

/// Writes `<prefix>.bin`, `<prefix>.idx` and the side-car as tokens come, with the lengths of sequences in
/// `<prefix>.lengths.partial` until then: memory does not grow with tokens or documents. A document is one
/// sequence, or several where it has more tokens than a sequence may. None of the files appears before
/// finish(), and each appears complete.
class TokenWriter {
 public:
  /// The format counts a sequence's tokens in 32 bits.
  static constexpr int32_t longest_sequence = std::numeric_limits<int32_t>::max();

  /// Ids must be below `vocabulary`; `tokenizer` is Tokenizer::fingerprint().
  TokenWriter(const std::string& prefix, int64_t vocabulary, const std::string& tokenizer,
              int32_t sequence_limit = longest_sequence);
  /// Goes on where commit() gave `state`, at whatever call the process ended after it, finish()'s too. Throws
  /// DataError where the partial files are not what it says.
  TokenWriter(const std::string& prefix, int64_t vocabulary, const std::string& tokenizer,
              const TokenWriterState& state, int32_t sequence_limit = longest_sequence);

  /// Appends tokens to the current document. Throws DataError for an id outside the vocabulary.
  void add(std::span<const int32_t> tokens);

  /// Ends the current document (an empty one is none).
  void end_document();

  /// Brings all that was added to disk; what it gives serves another writer once it is on disk itself, and
  /// until the next one is.
  TokenWriterState commit();

  /// From now on the partial files outlive this object unless finish() succeeds.
  void keep();

  /// Ends the last document and makes the files appear. The side-car comes last, so that an interrupted
  /// finish() is noticed by its numbers.
  void finish();

  const SideCar& facts() const { return facts_; }

 private:
  void put(const void* bytes, size_t size);
  void hash(const char* bytes, size_t size);
  void end_sequence();
  void put_length(int32_t length, bool ends_document);
  void write_index(FileWriter& index) const;
  bool has_appeared(uint64_t bytes) const;
  bool has_finished() const;
  template <class Visit>
  void each_length(Visit&& visit) const;

  std::string prefix_;
  std::optional<FileWriter> bin_;  // none: it has its name already
  std::optional<FileWriter>
      lengths_;  // i32 a sequence, negative where its document goes on; none: all is done
  SideCar facts_;
  ContentHash block_;
  uint64_t block_filled_ = 0;
  int32_t sequence_limit_;
  uint64_t sequences_ = 0;   // in lengths_
  int32_t last_length_ = 0;  // of the finished sequence that is not in lengths_ yet
  int32_t length_ = 0;       // of the current one
  std::vector<uint16_t> narrow_;
};

}  // namespace penstock::data
