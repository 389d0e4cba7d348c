#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/background_save.h"
#include "trainer/budget_steering.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/numerics_guard.h"
#include "trainer/participant.h"
#include "trainer/rank_context.h"
#include "trainer/run_folder.h"
#include "trainer/state_snapshot.h"

namespace penstock {

/// Saves every checkpoint.every_steps steps, after the last one, and when asked. With checkpoint.background
/// the state is copied to host memory while the next step runs forward and backward, and only that step's
/// update waits for the copy; it is written while the run goes on. One save is under way at a time: the next
/// one waits for it. The last one is waited for, and so is every save where checkpoint.every_steps is 0.
///
/// A save that fails is reported; the run goes on with the earlier checkpoints and tries again at the next
/// save, or ends with on_save_error = "stop". An attempt that a newer one has replaced ends.
class Checkpointing : public Participant {
 public:
  /// Collective. `began`: the job before its budget arranged it otherwise. `data_fingerprint`: rank 0's.
  /// `matmul_plans`: MatmulPlans::text(); empty where there are none. SaveError if the disk has
  /// no room for a checkpoint; a warning if it has none for all that are to be kept.
  Checkpointing(const RankContext& context, const Job& began, const RunPaths& paths, uint64_t attempt,
                std::string data_fingerprint, const std::string& matmul_plans, const NumericsGuard& guard,
                const BudgetSteering& steering);

  /// Whether one is due behind `step` completed steps.
  static bool due(const Job& job, int64_t step);
  void wish(const StepSummary& result, Decision& wishes) override;
  void act(const StepSummary& result, const Decision& decision) override;
  void rearranged() override;

  /// How long the last save took until it was on disk; 0 before the first.
  double save_seconds() const { return save_seconds_; }
  /// The text of the last save's failure; empty after a success. The same on all ranks after a decision to
  /// stop.
  const std::string& failure() const { return failure_; }
  /// What a run ends with whose last save failed: by the disk, or because there was nothing fit to be saved.
  ExitCode failure_code() const { return failure_code_; }
  /// Waits until no save is under way. Collective.
  void settle();

 private:
  void check_room();
  std::vector<checkpoint::Source> sources() const;
  bool on_processor() const;
  void save(int64_t step, bool waits);
  void wait_for_earlier(int64_t step);
  std::string begin(int64_t step, bool waits);
  checkpoint::Manifest manifest(int64_t step) const;
  void conclude(const BackgroundSave::Outcome& outcome);
  void report_failure(int64_t step, const std::string& failure);

  RankContext context_;
  const Job& began_;
  std::string folder_;
  std::string data_fingerprint_;
  nlohmann::json matmul_plans_;
  const NumericsGuard& guard_;
  const BudgetSteering& steering_;
  bool background_;
  checkpoint::CheckpointWriter writer_;
  std::optional<StateSnapshot> snapshot_;
  BackgroundSave save_;  ///< ends before what it reads
  double stall_ = 0;     ///< seconds that the save in flight has cost the steps so far
  bool held_ = false;    ///< it holds the update of the step that runs
  double save_seconds_ = 0;
  std::string failure_;
  ExitCode failure_code_ = ExitCode::storage;
  bool fenced_ = false;
};

}  // namespace penstock
