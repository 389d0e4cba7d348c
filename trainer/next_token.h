#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock {

/// How the next token is drawn from logits.
struct TokenChoice {
  double temperature = 1.0;  ///< 0: always the most likely one
  int64_t top_k = 0;         ///< only the k most likely; 0: all
  double top_p = 1.0;        ///< only the most likely whose probabilities reach p together
  uint64_t seed = 1;
};

/// Draws tokens. It allocates when it is made, and no more.
class TokenSampler {
 public:
  /// Of logits of `vocabulary` ≥ 1 tokens.
  TokenSampler(const TokenChoice& choice, int64_t vocabulary);

  /// The token drawn from logits (V) at position `position` of text number `text`: softmax(logits /
  /// temperature) cut by top_k, then by top_p, sampled with a number keyed by (seed, text, position), so that
  /// a text does not depend on what else is generated. Ties go to the smaller id.
  int32_t next(std::span<const float> logits, uint64_t text, uint64_t position);

 private:
  double weigh(size_t begin, size_t end);
  void order_first(size_t count);
  size_t cut_by_mass(size_t count);

  TokenChoice choice_;
  std::span<const float> logits_;
  float best_ = 0;
  std::vector<int32_t> order_;
  std::vector<double> weights_;  ///< in that order, of the most likely one 1
};

}  // namespace penstock
