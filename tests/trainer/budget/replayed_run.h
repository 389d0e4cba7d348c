// A whole run under a controller's eyes, in virtual time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/budget/drawn_pipeline.h"
#include "trainer/budget/controller.h"

namespace penstock::budget {

/// The mission's cases: 32 layers on 8 ranks with 80 micro-batches and a head that is nearly a layer; in "b"
/// two attentions are dear. Memory within 2 % of what a cut by layers takes.
struct MissionCase {
  explicit MissionCase(const std::string& profile);

  Truth truth;
  /// 1F1B, layers counted out evenly.
  Arrangement by_layers() const;
  /// 1F1B, cut by measured costs: the planner's best.
  Arrangement balanced() const;
  /// The planner's best of all schedules, cuts and recompute modes.
  Arrangement best() const;
  /// The planner's best of a request that leaves `cut` open and nothing else.
  Arrangement best_cut(const planner::Machine& machine, const Arrangement& like) const;
  /// What the planner says of it, without disturbances.
  planner::Prediction prediction(const Arrangement& arrangement) const;
  /// What a controller is given: costs without disturbances, a limit that is always broken.
  ControllerOptions options(const Arrangement& first, std::vector<BudgetAction> actions) const;
};

/// What happened: an action that was applied, and what became of it.
struct Applied {
  int64_t step = 0;  ///< the last of the old arrangement
  Arrangement before;
  Arrangement after;
  int64_t ended = 0;  ///< the last step of the trial; 0: it goes on
  bool kept = false;
};

class ReplayedRun {
 public:
  ReplayedRun(const Truth& truth, ControllerOptions options);

  /// Steps up to and with `last`.
  void run_to(int64_t last);

  int64_t step() const { return step_; }
  /// The last step that was run.
  const StepObservation& last() const { return last_; }
  const Arrangement& running() const { return pipeline_->arrangement().arrangement(); }
  const std::vector<Applied>& applied() const { return applied_; }
  const std::vector<BudgetEvent>& events() const { return events_; }
  Controller& controller() { return controller_; }

 private:
  const Truth& truth_;
  Controller controller_;
  std::unique_ptr<DrawnPipeline> pipeline_;
  int64_t step_ = 0;
  StepObservation last_;
  std::vector<Applied> applied_;
  std::vector<BudgetEvent> events_;
};

/// Mean seconds of a step over `steps` steps that the run did not see.
double mean_step(const Arrangement& arrangement, Truth truth, int64_t steps, uint64_t seed);

}  // namespace penstock::budget
