#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/numerics_guard.h"
#include "trainer/participant.h"
#include "trainer/rank_context.h"
#include "trainer/run_folder.h"

namespace penstock {

/// All that a checkpoint holds goes to where it lives while the run trains; without one all is as at the
/// start of a run. Every rank. Waits.
void restore(const std::optional<checkpoint::Checkpoint>& from, const RankContext& context,
             NumericsGuard& guard);

/// Takes a run back while it runs: to its newest whole checkpoint, else to where it began. The samples of the
/// step that gave the reason are skipped from then on; that is part of the run's state (contract C2), so that
/// it goes on as one whose checkpoint had them skipped.
class Rollback {
 public:
  /// `origin`: the checkpoint that the run went on from; empty: it began at step 0.
  /// `settle`: waits for a save that is under way.
  Rollback(const RankContext& context, const RunPaths& paths, NumericsGuard& guard, std::string origin,
           std::function<void()> settle);

  /// StepLoop::roll_back. Collective. Stops the run instead when it was taken back to the same checkpoint
  /// numerics.max_in_a_row times already. CheckpointError where the checkpoints are damaged.
  int64_t carry_out(const StepSummary& result, Decision& decision);

 private:
  RankContext context_;
  std::string checkpoints_;
  NumericsGuard& guard_;
  std::string origin_;
  std::function<void()> settle_;
  int64_t target_ = -1;
  int64_t in_a_row_ = 0;
};

}  // namespace penstock
