#pragma once

#include "parallel/runtime/local_engine.h"
#include "trainer/participant.h"
#include "trainer/run_reports.h"
#include "trainer/spike_detector.h"
#include "trainer/step_batches.h"

namespace penstock {

/// Watches loss and gradient norm. A step with NaN or infinity changed no weight; the guard names the first
/// unit where it appeared (by running the step's micro-batches again) and stops or goes on, as [numerics]
/// says. A loss far above the recent ones is reported or stops the run.
class NumericsGuard : public Participant {
 public:
  NumericsGuard(const Job& job, runtime::LocalEngine& engine, StepBatches& batches, RunReports& reports);
  void wish(const StepSummary& result, Decision& wishes) override;
  SpikeDetector& spikes() { return spikes_; }

 private:
  void judge_nonfinite(const StepSummary& result, Decision& wishes);
  void judge_spike(const StepSummary& result, Decision& wishes);

  const Job& job_;
  runtime::LocalEngine& engine_;
  StepBatches& batches_;
  RunReports& reports_;
  SpikeDetector spikes_;
};

}  // namespace penstock
