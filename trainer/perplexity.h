#pragma once

#include <cstdint>
#include <optional>

#include "data/tokenizer.h"
#include "kernels/transport/world.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/evaluation_text.h"
#include "trainer/job/job.h"

namespace penstock {

/// How a text is cut into the windows that the model sees at once.
struct WindowOptions {
  /// Tokens from the start of a window to that of the next, 1…sequence_length. Of a window only what the one
  /// before it did not have is counted: with less than sequence_length each token sees sequence_length −
  /// stride tokens before it or more (or all), and is computed sequence_length / stride times.
  int64_t stride = 0;
  /// Only the first so many.
  std::optional<int64_t> most;
};

/// Loss of every token of a text but the first.
struct Perplexity {
  double nats = 0;      ///< summed over `tokens`
  int64_t tokens = 0;   ///< that were predicted
  int64_t windows = 0;  ///< of sequence_length tokens each, that were computed
  /// Bytes of those tokens, special ones left out; where the tokenizer is known.
  std::optional<int64_t> bytes;
  double seconds = 0;

  double loss() const { return tokens > 0 ? nats / static_cast<double>(tokens) : 0; }
  /// Where the bytes are known and not 0.
  std::optional<double> bits_per_byte() const;
};

/// Windows of a text.
int64_t window_count(int64_t tokens, int64_t sequence_length, const WindowOptions& options);

/// Evaluates them in micro-batches of the job's, over all replicas. With data.document_mask a document sees
/// itself alone, and its first token is not predicted. Collective; the same on every rank. Leaves early, with
/// what it has, once a signal asks to.
Perplexity measure_perplexity(runtime::PipelineEngine& engine, transport::World& world,
                              const EvaluationText& text, const data::Tokenizer* tokenizer, const Job& job,
                              const WindowOptions& options);

}  // namespace penstock
