#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace penstock::data {

/// Reads the ranks of a tiktoken vocabulary: a line a token, `base64(bytes) rank`, ranks from 0 on (a rank
/// that is left out must be a special token's). `split`: a name of named_splits(). Ids between that no token
/// has, as cl100k and o200k have them, become special tokens `<|unused_N|>`. Such a vocabulary has no list of
/// merges: every pair of tokens that makes a token is one, by that token's rank, and a chunk that is a token
/// is that token. Throws DataError, which names the line.
Vocabulary load_tiktoken(const std::string& path, std::string_view split, std::vector<SpecialToken> special);

/// The same from memory; `origin` names it in errors.
Vocabulary parse_tiktoken(std::string_view text, const std::string& origin, std::string_view split,
                          std::vector<SpecialToken> special);

}  // namespace penstock::data
