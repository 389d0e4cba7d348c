#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "trainer/loss_scaler.h"
#include "trainer/participant.h"
#include "trainer/rank_context.h"
#include "trainer/spike_detector.h"
#include "trainer/step_batches.h"

namespace penstock {

/// Watches loss and gradient norm. A step with NaN or infinity changed no weight; the guard names the first
/// unit where it appeared (by running the step's micro-batches again). Then, and after a loss far above the
/// recent ones, it does as [numerics] says: it goes on, asks for a rollback, or stops. Where the loss is
/// scaled, gradients that overflow lower the scale instead, until it is at its minimum: no error. All ranks
/// see the same figures and wish the same.
class NumericsGuard : public Participant {
 public:
  NumericsGuard(const RankContext& context, StepBatches& batches);

  /// Of the next step: a spike that is to be skipped changes no weight.
  runtime::PipelineEngine::UpdateRule update_rule() const;
  void wish(const StepSummary& result, Decision& wishes) override;

  const LossScaler& loss_scaler() const { return loss_scaler_; }

  /// What of it continues a run, in a checkpoint's state: recent losses, the loss scale, steps skipped one
  /// after another, and the samples that are never used.
  void add_state(std::map<std::string, nlohmann::json>& state) const;
  /// What is missing there is as at the start of a run.
  void restore(const std::map<std::string, nlohmann::json>& state);

 private:
  bool lowers_scale(const StepSummary& result);
  void judge_nonfinite(const StepSummary& result, Decision& wishes);
  void judge_spike(const StepSummary& result, Decision& wishes);
  /// `text`: what happened; `key`: whose value `policy` is.
  void follow(NumericsPolicy policy, const std::string& key, const std::string& text, int64_t step,
              Decision& wishes);

  RankContext context_;
  StepBatches& batches_;
  SpikeDetector spikes_;
  LossScaler loss_scaler_;
  int64_t skips_in_a_row_ = 0;
};

}  // namespace penstock
