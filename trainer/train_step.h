#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "trainer/numerics_guard.h"
#include "trainer/participant.h"
#include "trainer/rank_context.h"
#include "trainer/recompute_check.h"
#include "trainer/step_accounting.h"
#include "trainer/step_batches.h"
#include "trainer/step_moment.h"

namespace penstock {

/// Trains step after step. While the device works the next one's data is read, and the step before is
/// accounted for. Where steps overlap (PipelinePlan::overlaps), the next one is begun before a step is waited
/// for, unless the run pauses between the two.
class TrainStep {
 public:
  /// All outlive it. Hooks may be empty.
  TrainStep(const RankContext& context, const StepHook& hook, const ReadHook& read_hook, StepBatches& batches,
            const NumericsGuard& guard, RecomputeCheck& check, StepAccounting& accounting)
      : context_(context),
        hook_(hook),
        read_hook_(read_hook),
        batches_(batches),
        guard_(guard),
        check_(check),
        accounting_(accounting) {}

  /// As StepLoop::train_step.
  StepSummary operator()(int64_t step, bool pauses);
  /// As StepLoop::follows.
  bool follows() const { return context_.engine->started_steps() > 0; }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Begun {
    StepSummary summary;
    model::StepInputs inputs;
    bool held = false;  ///< it is computed twice
  };

  BatchSet& read(int64_t step);
  void start(int64_t step);
  void tell_hook(int64_t step, const Begun& begun, bool computed);
  /// Whether evaluation, checkpoint or the run's end are due behind it.
  bool pauses_behind(int64_t step) const;

  const RankContext& context_;
  const StepHook& hook_;
  const ReadHook& read_hook_;
  StepBatches& batches_;
  const NumericsGuard& guard_;
  RecomputeCheck& check_;
  StepAccounting& accounting_;
  std::array<Begun, 2> begun_;  ///< by the step's parity
  TimePoint last_;              ///< when the step before was finished, if steps overlap
};

}  // namespace penstock
