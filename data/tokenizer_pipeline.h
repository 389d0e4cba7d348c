#pragma once

#include <nlohmann/json.hpp>

#include "data/checked_json.h"
#include "data/tokenizer.h"

namespace penstock::data {

/// Reads what surrounds the model in a `tokenizer.json` (normalizer, pre_tokenizer, decoder, post_processor)
/// into `vocabulary`, whose special tokens are read already. Refuses by name what would change tokens in
/// another way than a Vocabulary can say. Throws DataError.
void read_tokenizer_pipeline(const nlohmann::json& root, const CheckedJson& check, Vocabulary& vocabulary);

}  // namespace penstock::data
