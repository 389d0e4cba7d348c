#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/planner/refined_costs.h"
#include "trainer/accounting/step_account.h"
#include "trainer/budget/arrangement.h"

namespace penstock::budget {

/// A step as the budget sees it. Seconds and shares.
struct StepObservation {
  int64_t step = 0;
  double seconds = 0;   ///< without pauses for evaluation and checkpoint
  bool paused = false;  ///< there was such a pause
  double bubble_ratio = 0;
  double stage_imbalance = 0;
  double drain = 0;
  int slowest_rank = 0;
  int slowest_stage = 0;
  accounting::PartSeconds parts;  ///< mean over the ranks
  /// Who was behind the waits of all ranks together.
  std::vector<accounting::Culprit> roots;
  /// What units took, each run on one rank. Empty: not known; limits are watched, and nothing is decided.
  std::vector<planner::MeasuredRun> runs;
};

/// A step that was accounted for, of pipelines that were arranged like `running`: a replica each; `figures`
/// as accounting::figures_of says. What units took is, rank by rank, that of the replica whose rank worked
/// longest: the others wait for it when gradients are summed.
StepObservation observe(int64_t step, std::span<const accounting::StepAccount> replicas,
                        const accounting::StepFigures& figures, const SimulatedArrangement& running);

/// Adds seconds to the entry of the same rank or link.
void add_culprit(std::vector<accounting::Culprit>& all, const accounting::Culprit& culprit);

}  // namespace penstock::budget
