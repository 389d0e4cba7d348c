#pragma once

#include "trainer/participant.h"
#include "trainer/rank_context.h"
#include "trainer/spike_detector.h"
#include "trainer/step_batches.h"

namespace penstock {

/// Watches loss and gradient norm. A step with NaN or infinity changed no weight; the guard names the first
/// unit where it appeared (by running the step's micro-batches again) and stops or goes on, as [numerics]
/// says. A loss far above the recent ones is reported or stops the run.
class NumericsGuard : public Participant {
 public:
  NumericsGuard(const RankContext& context, StepBatches& batches);
  void wish(const StepSummary& result, Decision& wishes) override;
  SpikeDetector& spikes() { return spikes_; }

 private:
  void judge_nonfinite(const StepSummary& result, Decision& wishes);
  void judge_spike(const StepSummary& result, Decision& wishes);

  RankContext context_;
  StepBatches& batches_;
  SpikeDetector spikes_;
};

}  // namespace penstock
