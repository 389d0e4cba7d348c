#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/mapped_file.h"
#include "data/side_car.h"
#include "data/token_format.h"
#include "data/token_index.h"

namespace penstock::data {

/// The prefix of a pair: the path without an .idx or .bin at its end.
std::string token_file_prefix(const std::string& path);

/// How a file without an index, a header and a side-car is to be read.
struct HeaderlessFile {
  TokenType type = TokenType::uint16;
  std::optional<DocumentMark> mark;
};

/// Tokens in a `.bin`, memory-mapped and checked: one stream with document borders, in any TokenFormat. A
/// file is Megatron's where `<prefix>.idx` lies beside it, else what its side-car says, else llm.c's if it
/// begins as one.
class TokenFile {
 public:
  /// `path` is the prefix; one that ends in .idx or .bin is understood. With a side-car its numbers are
  /// compared with the files; without one the `.bin` is read once to know its largest id and hashes. Throws
  /// DataError. `headerless`: what it is if nothing beside it or in it says so.
  explicit TokenFile(const std::string& path, const std::optional<HeaderlessFile>& headerless = std::nullopt);

  const std::string& prefix() const { return prefix_; }
  const std::string& bin_path() const { return bin_.path(); }
  TokenFormat format() const { return layout_.format; }
  TokenType type() const { return layout_.type; }
  uint64_t tokens() const { return layout_.tokens; }
  /// Of Megatron's files.
  const std::optional<TokenIndex>& index() const { return index_; }
  const SideCar& facts() const { return facts_; }
  bool has_side_car() const { return has_side_car_; }
  /// Whether anything says where documents begin; if not, the file is one.
  bool knows_documents() const { return index_ || layout_.mark; }
  /// Whether documents are told apart by a token that it does not have: all of it is one.
  bool lacks_marks() const;

  /// Copies tokens first … first + out.size() − 1, which must exist, and checks that each is in [0,
  /// vocabulary): DataError with the offset of one that is not. No allocation.
  void read(uint64_t first, std::span<int32_t> out, int64_t vocabulary) const;

  /// Puts into `out`, ascending, the places (from 0) among tokens first … first + out.size() − 1, which must
  /// exist, at which a document starts, and returns how many they are. No allocation.
  size_t document_starts(uint64_t first, std::span<int32_t> out) const;

  /// Refuses, with the numbers, a file that has ids ≥ `vocabulary` according to its side-car or scan.
  void require_vocabulary(int64_t vocabulary) const;

  /// Reads the whole `.bin` again and compares largest id and hashes with facts(): DataError naming the first
  /// block that differs.
  void verify() const;

  /// Reads the whole `.bin`: tokens, documents, largest id, block hashes (vocabulary and tokenizer stay
  /// unknown). Throws DataError for a negative id or one that 32 bits cannot hold.
  SideCar scan() const;

 private:
  void open(const std::optional<SideCar>& side_car, const std::optional<HeaderlessFile>& headerless);
  void check_side_car() const;
  const std::byte* data() const { return bin_.data() + layout_.begin; }

  std::string prefix_;
  MappedFile bin_;
  std::optional<TokenIndex> index_;
  TokenLayout layout_;
  SideCar facts_;
  bool has_side_car_ = false;
};

}  // namespace penstock::data
