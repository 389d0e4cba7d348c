#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/normal_form.h"
#include "data/special_finder.h"
#include "data/text_split.h"
#include "data/tokenizer.h"

namespace penstock::data {

/// Text to tokens with a tokenizer; one per thread (scratch memory and a cache of chunks). `decode(encode(x))
/// == x` for any bytes x (of a vocabulary with NFC: its normal form); how bytes that are not UTF-8 are split
/// stands at TextSplitter.
class Encoder {
 public:
  /// Chunks whose tokens are kept, of 160 bytes or so each.
  static constexpr size_t usual_cache = size_t{1} << 18;

  /// `tokenizer` must outlive the encoder.
  explicit Encoder(const Tokenizer& tokenizer, size_t cached_chunks = usual_cache);

  /// Appends the tokens of `text` to `out`.
  void encode(std::string_view text, std::vector<int32_t>& out, SpecialText special = SpecialText::plain);
  std::vector<int32_t> encode(std::string_view text, SpecialText special = SpecialText::plain);

 private:
  struct Symbol {
    int32_t token;
    int32_t previous;  // place in symbols_, -1: none
    int32_t next;
  };
  struct Candidate {
    uint64_t order;  // rank in the high half, place of the left symbol in the low one: the smallest is merged
                     // first
    TokenPair pair;
    int32_t merged;
    bool operator>(const Candidate& other) const { return order > other.order; }
  };
  struct CachedRange {
    uint32_t begin;
    uint32_t count;
  };
  struct ChunkHash {
    using is_transparent = void;
    size_t operator()(std::string_view chunk) const;
  };

  template <class Rest>
  void take_special(std::string_view text, std::vector<int32_t>& out, SpecialText special, bool normalized,
                    Rest&& rest);
  void encode_plain(std::string_view text, std::vector<int32_t>& out);
  void encode_chunk(std::string_view chunk, std::vector<int32_t>& out);
  void encode_new(std::string_view chunk, std::vector<int32_t>& out);
  void merge_chunk(std::string_view chunk, std::vector<int32_t>& out);
  void add_candidate(int32_t left);

  const Tokenizer* tokenizer_;
  size_t cached_chunks_;
  TextSplitter splitter_;
  NormalForm normal_form_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  std::unordered_map<std::string, CachedRange, ChunkHash, std::equal_to<>> cache_;
  std::vector<int32_t> cached_tokens_;
};

}  // namespace penstock::data
