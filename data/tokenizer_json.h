#pragma once

#include <string>
#include <string_view>

#include "data/tokenizer.h"

namespace penstock::data {

/// Reads a Hugging Face `tokenizer.json` of the GPT-2 class: model BPE, pre-tokenizer ByteLevel (no prefix
/// space, its own split), no normaliser; merges as "a b" or as pairs. Anything else that would change tokens
/// is refused by its name; so are duplicate or missing ids, merges of unknown tokens, and bytes without a
/// token. Throws DataError. `truncation` and `padding` are a caller's wishes about batches and are not read.
Tokenizer load_tokenizer(const std::string& path);

/// The same from memory; `origin` names it in errors.
Tokenizer parse_tokenizer(std::string_view json, const std::string& origin);

/// The text of a `tokenizer.json`, with merges as strings: every version of the library reads those.
std::string tokenizer_json(const Tokenizer& tokenizer);

/// Writes it, complete or not at all.
void save_tokenizer(const Tokenizer& tokenizer, const std::string& path);

}  // namespace penstock::data
