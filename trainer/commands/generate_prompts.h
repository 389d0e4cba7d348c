#pragma once

#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "kernels/transport/world.h"
#include "trainer/generation.h"

namespace penstock::commands {

/// The prompts of `file`: a line each, or of a .jsonl the "text" of each; "-": lines of standard input. Rank
/// 0 reads them for all. Collective. DataError: it cannot be read, or has none.
std::vector<std::string> read_prompts(const std::string& file, transport::World& world);

/// Prompts as tokens: what the tokenizer puts in front of a text, then the prompt; an empty one begins a
/// document.
std::vector<std::vector<int32_t>> encode_prompts(const std::vector<std::string>& prompts,
                                                 const data::Tokenizer& tokenizer);

/// `texts` continuations of each prompt, numbered in order.
std::vector<GenerationRequest> requests_of(const std::vector<std::vector<int32_t>>& prompts, int64_t texts);

}  // namespace penstock::commands
