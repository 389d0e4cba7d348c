#pragma once

#include <cstdint>
#include <span>

namespace penstock {

/// How the next token is drawn from logits.
struct TokenChoice {
  double temperature = 1.0;  ///< 0: always the most likely one
  int64_t top_k = 0;         ///< only the k most likely; 0: all
  double top_p = 1.0;        ///< only the most likely whose probabilities reach p together
  uint64_t seed = 1;
};

/// The token drawn from logits (V) at position `position` of text number `text`: softmax(logits /
/// temperature) cut by top_k, then by top_p, sampled with a number keyed by (seed, text, position), so that a
/// text does not depend on what else is generated. Ties go to the smaller id. V ≥ 1.
int32_t next_token(std::span<const float> logits, const TokenChoice& choice, uint64_t text,
                   uint64_t position);

}  // namespace penstock
