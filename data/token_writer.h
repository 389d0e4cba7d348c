#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "data/content_hash.h"
#include "data/file_writer.h"
#include "data/side_car.h"

namespace penstock::data {

/// Writes `<prefix>.bin`, `<prefix>.idx` and the side-car as tokens come: memory grows by 12 bytes a
/// document. A document is one sequence, or several where it has more tokens than a sequence may. None of the
/// files appears before finish(), and each appears complete.
class TokenWriter {
 public:
  /// The format counts a sequence's tokens in 32 bits.
  static constexpr int32_t longest_sequence = std::numeric_limits<int32_t>::max();

  /// Ids must be below `vocabulary`; `tokenizer` is Tokenizer::fingerprint().
  TokenWriter(const std::string& prefix, int64_t vocabulary, const std::string& tokenizer,
              int32_t sequence_limit = longest_sequence);

  /// Appends tokens to the current document. Throws DataError for an id outside the vocabulary.
  void add(std::span<const int32_t> tokens);

  /// Ends the current document (an empty one is none).
  void end_document();

  /// Ends the last document and makes the files appear. The side-car comes last, so that an interrupted
  /// finish() is noticed by its numbers.
  void finish();

  const SideCar& facts() const { return facts_; }

 private:
  void put(const void* bytes, size_t size);
  void end_sequence();

  std::string prefix_;
  FileWriter bin_;
  SideCar facts_;
  ContentHash block_;
  uint64_t block_filled_ = 0;
  int32_t sequence_limit_;
  std::vector<int32_t> lengths_;           // of finished sequences
  std::vector<int64_t> document_ends_{0};  // sequences before the end of each document
  int32_t length_ = 0;                     // of the current sequence
  std::vector<uint16_t> narrow_;
};

}  // namespace penstock::data
