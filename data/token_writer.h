#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/content_hash.h"
#include "data/file_writer.h"
#include "data/side_car.h"

namespace penstock::data {

/// Writes `<prefix>.bin`, `<prefix>.idx` and the side-car as tokens come: memory grows by 4 bytes a document.
/// A document is one sequence. None of the files appears before finish(), and each appears complete.
class TokenWriter {
 public:
  /// Ids must be below `vocabulary`; `tokenizer` is Tokenizer::fingerprint().
  TokenWriter(const std::string& prefix, int64_t vocabulary, const std::string& tokenizer);

  /// Appends tokens to the current document. Throws DataError for an id outside the vocabulary, or when a
  /// document exceeds 2³¹ − 1 tokens.
  void add(std::span<const int32_t> tokens);

  /// Ends the current document (an empty one is none).
  void end_document();

  /// Ends the last document and makes the files appear. The side-car comes last, so that an interrupted
  /// finish() is noticed by its numbers.
  void finish();

  const SideCar& facts() const { return facts_; }

 private:
  void put(const void* bytes, size_t size);

  std::string prefix_;
  FileWriter bin_;
  SideCar facts_;
  ContentHash block_;
  uint64_t block_filled_ = 0;
  std::vector<int32_t> lengths_;  // of finished documents
  int64_t length_ = 0;            // of the current one
  std::vector<uint16_t> narrow_;
};

}  // namespace penstock::data
