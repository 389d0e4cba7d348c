#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "data/mapped_file.h"
#include "data/token_type.h"

namespace penstock::data {

/// A Megatron `.idx`, memory-mapped and checked: magic, version, type, size, lengths, offsets, documents.
/// Nothing is copied: an index of 10⁹ documents opens in the time of one pass over it.
class TokenIndex {
 public:
  /// Throws DataError with file, offset, found, expected. `bin_bytes` is the size of the `.bin` it belongs
  /// to, whose sequences must lie one behind the other and fill it.
  TokenIndex(const std::string& path, uint64_t bin_bytes);

  const std::string& path() const { return file_.path(); }
  TokenType type() const { return type_; }
  uint64_t tokens() const { return tokens_; }
  uint64_t sequences() const { return sequences_; }
  uint64_t documents() const { return documents_; }

  /// Token (from 0) with which document d < documents() starts; documents() itself gives tokens().
  uint64_t document_start(uint64_t document) const;

  /// The first document that starts at or after `token`.
  uint64_t first_document_from(uint64_t token) const;

 private:
  void check_header();
  void check_sizes();
  void check_sequences(uint64_t bin_bytes);
  void check_documents() const;
  uint64_t lengths_at() const;
  uint64_t offsets_at() const;
  uint64_t documents_at() const;

  MappedFile file_;
  TokenType type_ = TokenType::uint16;
  uint64_t sequences_ = 0;
  uint64_t documents_ = 0;
  uint64_t tokens_ = 0;
};

}  // namespace penstock::data
