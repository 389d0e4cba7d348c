#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "data/mapped_file.h"

namespace penstock::data {

/// How a token is stored; the numbers are those of Megatron's index files.
enum class TokenType : uint8_t { uint8 = 1, int8 = 2, int16 = 3, int32 = 4, int64 = 5, uint16 = 8 };

/// Bytes of a token.
int64_t token_bytes(TokenType type);
const char* token_type_name(TokenType type);

/// The type the writer uses for ids below `vocabulary`.
TokenType token_type_for(int64_t vocabulary);

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
