#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "trainer/participant.h"
#include "trainer/rank_context.h"
#include "trainer/step_accounting.h"
#include "trainer/step_batches.h"

namespace penstock {

/// Trains step after step. While the device works the next one's data is read, and the step before is
/// accounted for. Where steps overlap (PipelinePlan::overlaps), the next one is begun before a step is waited
/// for, unless the run pauses between the two.
class TrainStep {
 public:
  /// All outlive it.
  TrainStep(const RankContext& context, StepBatches& batches, StepAccounting& accounting)
      : context_(context), batches_(batches), accounting_(accounting) {}

  /// As StepLoop::train_step.
  StepSummary operator()(int64_t step, bool pauses);
  /// As StepLoop::follows.
  bool follows() const { return context_.engine->started_steps() > 0; }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  BatchSet& read(int64_t step);
  void start(int64_t step);
  /// Whether evaluation, checkpoint or the run's end are due behind it.
  bool pauses_behind(int64_t step) const;

  const RankContext& context_;
  StepBatches& batches_;
  StepAccounting& accounting_;
  std::array<StepSummary, 2> begun_;  ///< by the step's parity
  TimePoint last_;                    ///< when the step before was finished, if steps overlap
};

}  // namespace penstock
