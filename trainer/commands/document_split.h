#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::commands {

/// Which documents are kept for validation: of each 1/fraction documents in a row one, drawn by a hash of
/// where they stand. The same documents for the same text, and never far from the fraction.
class DocumentDraw {
 public:
  /// fraction in [0, 1).
  explicit DocumentDraw(double fraction) : fraction_(fraction) {}
  bool is_validation(uint64_t document) const;
  double fraction() const { return fraction_; }

 private:
  double fraction_;
};

/// Where a text that is one document may be split near `target` (≤ text.size()): behind the first line end
/// from there on, else before the first space after a letter; text.size() where there is neither.
size_t place_to_split(std::string_view text, size_t target);

}  // namespace penstock::commands
