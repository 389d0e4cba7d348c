#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/budget_steering.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/loss_scaler.h"
#include "trainer/participant.h"
#include "trainer/rank_context.h"
#include "trainer/run_folder.h"
#include "trainer/spike_detector.h"

namespace penstock {

/// Saves every checkpoint.every_steps steps, after the last one, and when asked; then deletes the ones that
/// [checkpoint] does not keep. A save that fails is reported and, with on_save_error = "stop", ends the run;
/// the earlier checkpoints stay.
class Checkpointing : public Participant {
 public:
  /// Collective. `began`: the job before its budget arranged it otherwise. `data_fingerprint`: rank 0's.
  /// `matmul_plans`: MatmulPlans::text(); empty where there are none. SaveError if the disk has no room for a
  /// checkpoint.
  Checkpointing(const RankContext& context, const Job& began, const RunPaths& paths, uint64_t attempt,
                std::string data_fingerprint, const std::string& matmul_plans, SpikeDetector& spikes,
                const LossScaler& loss_scaler, const BudgetSteering& steering);

  void wish(const StepSummary& result, Decision& wishes) override;
  void act(const StepSummary& result, const Decision& decision) override;

  /// How long the last save took; 0 before the first.
  double save_seconds() const { return save_seconds_; }
  /// The text of the last save's failure; empty after a success.
  const std::string& failure() const { return failure_; }

 private:
  std::vector<checkpoint::Source> sources() const;
  void save(int64_t step);
  std::string write_and_commit(int64_t step, uint64_t& bytes);
  checkpoint::Manifest manifest(int64_t step) const;
  void conclude(int64_t step, uint64_t bytes);

  RankContext context_;
  const Job& began_;
  std::string folder_;
  std::string data_fingerprint_;
  nlohmann::json matmul_plans_;
  SpikeDetector& spikes_;
  const LossScaler& loss_scaler_;
  const BudgetSteering& steering_;
  checkpoint::CheckpointWriter writer_;
  double save_seconds_ = 0;
  std::string failure_;
};

}  // namespace penstock
