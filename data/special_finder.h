#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::data {

/// A token that text never yields by merging.
struct SpecialToken {
  int32_t id = 0;
  std::string text;
  bool special = true;      ///< a sign between texts; otherwise a word, which every text may have
  bool normalized = false;  ///< looked for behind the normaliser, after those that are not
  bool operator==(const SpecialToken&) const = default;
};

/// What the text of a special token means inside a text.
enum class SpecialText {
  plain,      ///< ordinary text: no document can end another one. Words among the added tokens are tokens
  recognised  ///< the special token
};

/// Finds the texts of added tokens in a text. Immutable.
class SpecialFinder {
 public:
  struct Found {
    size_t place = std::string_view::npos;  ///< npos: none
    size_t size = 0;
    int32_t id = 0;
  };

  SpecialFinder() = default;
  explicit SpecialFinder(const std::vector<SpecialToken>& tokens);

  /// The first token at or after `from`, of those at one place the longest, among those that are looked for:
  /// whose `normalized` is that, and the special ones only when they are recognised.
  Found find(std::string_view text, size_t from, SpecialText special, bool normalized) const;

 private:
  struct Token {
    std::string text;
    int32_t id;
  };
  struct Set {
    std::array<std::vector<Token>, 256> by_first_byte;  // the longest first
    std::vector<uint8_t> first_bytes;

    void add(const SpecialToken& token);
    size_t next_first_byte(std::string_view text, size_t from) const;
  };
  using Pair = std::array<Set, 2>;  // by `normalized`

  Pair words_;
  Pair all_;
};

}  // namespace penstock::data
