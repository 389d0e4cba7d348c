#pragma once

#include "trainer/loss_scaler.h"
#include "trainer/participant.h"
#include "trainer/rank_context.h"
#include "trainer/spike_detector.h"
#include "trainer/step_batches.h"

namespace penstock {

/// Watches loss and gradient norm. A step with NaN or infinity changed no weight; the guard names the first
/// unit where it appeared (by running the step's micro-batches again) and stops or goes on, as [numerics]
/// says. Where the loss is scaled, gradients that overflow lower the scale instead, until it is at its
/// minimum: no error. A loss far above the recent ones is reported or stops the run.
class NumericsGuard : public Participant {
 public:
  NumericsGuard(const RankContext& context, StepBatches& batches);
  void wish(const StepSummary& result, Decision& wishes) override;
  SpikeDetector& spikes() { return spikes_; }
  LossScaler& loss_scaler() { return loss_scaler_; }

 private:
  bool lowers_scale(const StepSummary& result);
  void judge_nonfinite(const StepSummary& result, Decision& wishes);
  void judge_spike(const StepSummary& result, Decision& wishes);

  RankContext context_;
  StepBatches& batches_;
  SpikeDetector spikes_;
  LossScaler loss_scaler_;
};

}  // namespace penstock
