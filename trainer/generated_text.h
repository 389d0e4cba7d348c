#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "data/tokenizer.h"

namespace penstock {

/// The bytes of a text as it grows by tokens, up to the first stop text in it.
class GeneratedText {
 public:
  /// Both outlive it. Stop texts are not empty.
  GeneratedText(const data::Tokenizer& tokenizer, std::span<const std::string> stops);

  /// A token's bytes more; one that the tokenizer does not have, as models' vocabularies may be padded, has
  /// none. Whether a stop text is there now: the text ends before it.
  bool add(int32_t token);
  /// What was not taken yet and can no longer be the beginning of a stop text: to be shown at once. A
  /// character may come in two pieces.
  std::string_view take();
  /// The same once nothing is added any more.
  std::string_view take_rest();
  const std::string& bytes() const { return bytes_; }

 private:
  std::string_view take_to(size_t end);

  const data::Tokenizer& tokenizer_;
  std::span<const std::string> stops_;
  size_t longest_stop_ = 0;
  std::string bytes_;
  size_t taken_ = 0;
  bool stopped_ = false;
};

}  // namespace penstock
