#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "parallel/runtime/cached_engine.h"
#include "trainer/next_token.h"

namespace penstock {

/// A text to go on with.
struct GenerationRequest {
  std::span<const int32_t> tokens;  ///< what is there: at least one; somebody else's
  uint64_t number = 0;              ///< the key of its random numbers
};

/// What generating took.
struct GenerationFigures {
  int64_t read_tokens = 0;  ///< of what was there, and of what was read again as the window moved
  double read_seconds = 0;
  int64_t made_tokens = 0;  ///< token by token; the first of each text follows from reading
  int64_t steps = 0;        ///< in which they were made, one of each slot that was in use
  double made_seconds = 0;
  int64_t kept_tokens = 0;  ///< whose keys and values were read in those steps, added up
};

/// Told of request `request` of the list and its next token; answers whether the text ends with it.
using TokenSeen = std::function<bool(size_t request, int32_t token)>;

/// Continues each text by `count` tokens, or until `seen` says so, as many at once as the engine has slots;
/// the next begins where one has ended. Once a text is longer than the engine's positions, the model sees the
/// last so many tokens of it: each token more is a reading of them all. A text depends on nothing but its
/// tokens, its number and the choice. All ranks call alike; `seen` is called alike on each.
GenerationFigures generate(runtime::CachedEngine& engine, std::span<const GenerationRequest> requests,
                           int64_t count, const TokenChoice& choice, const TokenSeen& seen);

/// Positions that each slot needs: of the longest text with `count` tokens more, at most the model's
/// sequence_length.
int64_t needed_positions(std::span<const GenerationRequest> requests, int64_t count, int64_t sequence_length);

}  // namespace penstock
