#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/inference.h"
#include "trainer/next_token.h"

namespace penstock {

/// Continues `tokens` (not empty) by `count` tokens, appending each and telling it to `seen`; stops early
/// after `end_token` (−1: never). Once the text is longer than the model's sequence_length the model sees the
/// last sequence_length tokens of it. `text` numbers the texts of one command: the key of their random
/// numbers.
void generate(Inference& model, std::vector<int32_t>& tokens, int64_t count, const TokenChoice& choice,
              uint64_t text, int32_t end_token, const std::function<void(int32_t)>& seen);

}  // namespace penstock
