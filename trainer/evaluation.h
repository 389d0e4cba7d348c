#pragma once

#include <cstdint>

#include "kernels/transport/world.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/step_batches.h"

namespace penstock {

/// A mean loss over validation samples.
struct EvaluationResult {
  double loss = 0;      ///< nats a token
  int64_t tokens = 0;   ///< target tokens that it is the mean of
  int64_t samples = 0;  ///< of the validation file, from its first on
  double seconds = 0;
};

/// Evaluates validation samples 0 … `samples` − 1, at most all of the file, in whole micro-batches on every
/// replica: the same samples every time. Collective; the result is the same on every rank. Leaves early, with
/// what it has, once a signal asks the run to stop. UsageError without validation data; DataError if the file
/// has not one micro-batch a replica.
EvaluationResult evaluate(runtime::PipelineEngine& engine, transport::World& world, Corpus& corpus,
                          const Job& job, int64_t samples);

/// Whether a signal asks any rank to stop. Collective.
bool somebody_stops(transport::World& world);

}  // namespace penstock
