#pragma once

#include <string>
#include <string_view>

namespace penstock::data {

/// Unicode's composed normal form, NFC (UAX #15, by libutf8proc). Bytes that are not UTF-8 stay as they are.
class NormalForm {
 public:
  /// The normal form of `text`: itself where it has it, else valid until the next call. Throws
  /// std::bad_alloc.
  std::string_view apply(std::string_view text);

 private:
  std::string normal_;
};

}  // namespace penstock::data
