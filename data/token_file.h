#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/mapped_file.h"
#include "data/side_car.h"
#include "data/token_index.h"

namespace penstock::data {

/// The prefix of a pair: the path without an .idx or .bin at its end.
std::string token_file_prefix(const std::string& path);

/// `<prefix>.idx` and `<prefix>.bin`, memory-mapped and checked: one stream of tokens with document borders.
class TokenFile {
 public:
  /// `path` is the prefix; one that ends in .idx or .bin is understood. With a side-car its numbers are
  /// compared with the files; without one the `.bin` is read once to know its largest id and hashes. Throws
  /// DataError.
  explicit TokenFile(const std::string& path);

  const std::string& prefix() const { return prefix_; }
  const std::string& bin_path() const { return bin_.path(); }
  const TokenIndex& index() const { return index_; }
  uint64_t tokens() const { return index_.tokens(); }
  const SideCar& facts() const { return facts_; }
  bool has_side_car() const { return has_side_car_; }

  /// Copies tokens first … first + out.size() − 1, which must exist, and checks that each is in [0,
  /// vocabulary): DataError with the offset of one that is not. No allocation.
  void read(uint64_t first, std::span<int32_t> out, int64_t vocabulary) const;

  /// Refuses, with the numbers, a file that has ids ≥ `vocabulary` according to its side-car or scan.
  void require_vocabulary(int64_t vocabulary) const;

  /// Reads the whole `.bin` again and compares largest id and hashes with facts(): DataError naming the first
  /// block that differs.
  void verify() const;

  /// Reads the whole `.bin`: tokens, largest id, block hashes (vocabulary and tokenizer stay unknown). Throws
  /// DataError for a negative id or one that 32 bits cannot hold.
  SideCar scan() const;

 private:
  void check_side_car() const;

  std::string prefix_;
  MappedFile bin_;
  TokenIndex index_;
  SideCar facts_;
  bool has_side_car_ = false;
};

}  // namespace penstock::data
