#pragma once

#include <cstdint>
#include <functional>

#include "parallel/runtime/pipeline_engine.h"
#include "trainer/step_batches.h"

namespace penstock {

/// Where a rank stands in a step.
struct StepMoment {
  int rank = 0;
  int64_t step = 0;       ///< completed before this one
  int computation = 0;    ///< a step may be computed several times before its update
  bool computed = false;  ///< false: it is about to be
  runtime::PipelineEngine& engine;
  BatchSet& batches;
};

/// Called on every rank, between the computations of steps. For tests: a job has none.
using StepHook = std::function<void(const StepMoment&)>;

/// A rank has read the data of a step.
struct ReadMoment {
  int rank = 0;
  int64_t step = 0;        ///< completed before the one whose data it is
  bool accounted = false;  ///< false: what passes now counts as reading still
  runtime::PipelineEngine& engine;
};

/// Called on every rank, twice for each read. For tests: a job has none.
using ReadHook = std::function<void(const ReadMoment&)>;

}  // namespace penstock
