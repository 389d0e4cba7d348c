#include "data/tokenizer.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "data/byte_alphabet.h"
#include "data/content_hash.h"
#include "data/data_error.h"

namespace penstock::data {
namespace {

using IdOfBytes = std::unordered_map<std::string_view, int32_t>;

std::string quoted(std::string_view bytes) {
  return fmt::format("`{}`", to_byte_alphabet(bytes));
}

// Ordinary tokens by their bytes; special tokens are left out, for merges must not yield them.
IdOfBytes index_of_tokens(const Vocabulary& vocabulary, const std::string& origin) {
  std::set<int32_t> special;
  for (const SpecialToken& token : vocabulary.special) {
    if (token.id < 0 || static_cast<size_t>(token.id) >= vocabulary.tokens.size()) {
      throw DataError(Fault{origin,
                            {},
                            fmt::format("special token `{}` with id {}", token.text, token.id),
                            fmt::format("ids from 0 to {}", vocabulary.tokens.size() - 1),
                            "correct the file"});
    }
    special.insert(token.id);
  }
  IdOfBytes ids;
  ids.reserve(vocabulary.tokens.size());
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (special.count(id) > 0) continue;
    const auto [place, fresh] = ids.emplace(vocabulary.tokens[i], id);
    if (!fresh) {
      throw DataError(
          Fault{origin,
                {},
                fmt::format("token {} for ids {} and {}", quoted(vocabulary.tokens[i]), place->second, id),
                "each token once",
                "correct the file"});
    }
  }
  return ids;
}

std::string fingerprint_of(const Vocabulary& vocabulary) {
  ContentHash hash;
  hash.number(vocabulary.tokens.size());
  for (const std::string& token : vocabulary.tokens) hash.text(token);
  hash.number(vocabulary.merges.size());
  for (const TokenPair& merge : vocabulary.merges) {
    hash.number(static_cast<uint64_t>(merge.left));
    hash.number(static_cast<uint64_t>(merge.right));
  }
  hash.number(vocabulary.special.size());
  for (const SpecialToken& token : vocabulary.special) {
    hash.number(static_cast<uint64_t>(token.id));
    hash.text(token.text);
  }
  hash.text(vocabulary.split_pattern);
  // Only where they are not GPT-2's: the fingerprints of older token files stay as they are.
  if (vocabulary.ignore_merges) hash.text("ignore_merges");
  if (vocabulary.nfc) hash.text("NFC");
  for (const SpecialToken& token : vocabulary.special) {
    if (!token.special) hash.text("word");
    if (!token.special) hash.number(static_cast<uint64_t>(token.id));
  }
  return hash.hex();
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary, const std::string& origin)
    : vocabulary_(std::move(vocabulary)),
      pattern_(std::make_unique<SplitPattern>(vocabulary_.split_pattern)),
      merges_(vocabulary_.merges.size()),
      special_finder_(vocabulary_.special) {
  IdOfBytes ids = index_of_tokens(vocabulary_, origin);
  for (int value = 0; value < 256; ++value) {
    const char byte = static_cast<char>(value);
    const auto found = ids.find(std::string_view(&byte, 1));
    if (found == ids.end()) {
      throw DataError(Fault{origin,
                            {},
                            fmt::format("no token for byte 0x{:02x} ({})", value, quoted({&byte, 1})),
                            "a token for each of the 256 bytes (a byte-level vocabulary)",
                            "use a vocabulary trained with the whole byte alphabet"});
    }
    byte_tokens_[static_cast<size_t>(value)] = found->second;
  }
  std::string both;
  for (size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
    const TokenPair pair = vocabulary_.merges[rank];
    both = vocabulary_.tokens.at(static_cast<size_t>(pair.left));
    both += vocabulary_.tokens.at(static_cast<size_t>(pair.right));
    const auto result = ids.find(both);
    if (result == ids.end()) {
      throw DataError(Fault{origin,
                            {},
                            fmt::format("merge {} that yields {}, which is no token", rank, quoted(both)),
                            "every merge's result in the vocabulary",
                            "correct the file"});
    }
    merges_[pair] = Merged{static_cast<int32_t>(rank), result->second};
  }
  for (const char* name : {end_of_text_name, other_end_of_text_name}) {
    for (const SpecialToken& token : vocabulary_.special) {
      if (token.text == name && !end_of_text_) end_of_text_ = token.id;
    }
  }
  if (vocabulary_.ignore_merges) whole_ = std::move(ids);
  fingerprint_ = fingerprint_of(vocabulary_);
}

void Tokenizer::decode(std::span<const int32_t> tokens, std::string& out) const {
  for (const int32_t token : tokens) {
    if (token < 0 || static_cast<size_t>(token) >= vocabulary_.tokens.size()) {
      throw DataError(
          fmt::format("cannot decode token id {}: the vocabulary has ids 0 to {}; use the tokenizer that "
                      "the tokens were made with",
                      token, vocabulary_.tokens.size() - 1));
    }
    out += vocabulary_.tokens[static_cast<size_t>(token)];
  }
}

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string out;
  decode(tokens, out);
  return out;
}

}  // namespace penstock::data
