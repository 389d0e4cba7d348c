#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/planner/unit_costs.h"

namespace penstock::planner {

/// What was measured of units that run together: a stage's, or all of a rank's. Seconds of a step, over all
/// of its micro-batches.
struct MeasuredRun {
  struct Member {
    int unit = 0;  ///< in the order of the model
    Recompute mode = Recompute::none;
  };
  std::vector<Member> members;
  int64_t micro_batches = 1;
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  /// Nothing: backward_input has it.
  std::optional<double> recompute;

  /// What the same units took elsewhere: both together.
  void add(const MeasuredRun& other);
};

/// Costs that follow what steps measure. Each run of units is compared with the sum of its costs, action by
/// action, and every one of its units is scaled towards the ratio: all of it while none of them was measured
/// before, then by a half, a third, … of what is missing (the mean of the steps so far), and from the
/// 1/weight-th step on by `weight` (an exponential average over about as many), the ratio taken as at most 2
/// and at least 1/2, so that a single hiccup moves little. How a run's time is shared among its units stays
/// as the costs had it; a unit that moves to another stage takes its factor along.
///
/// F, I and W are scaled in all recompute modes alike; R of the mode that ran by what was measured, and of
/// the others by F's factor, since they do parts of F. What costs nothing is not scaled. Pure.
class RefinedCosts {
 public:
  /// `weight` in (0, 1]. std::invalid_argument otherwise.
  explicit RefinedCosts(ModelCosts costs, double weight = 0.1);

  /// What one step measured; std::invalid_argument for a unit that the model has not, a number that is
  /// negative or not finite, or no micro-batch.
  void fold(const std::vector<MeasuredRun>& step);

  const ModelCosts& costs() const { return costs_; }
  /// Steps that were folded in.
  int64_t steps() const { return steps_; }

 private:
  /// Towards `measured`, of what the members' costs add up to in `actions` (members of ModeCosts), after
  /// `before` steps.
  double factor_of(const MeasuredRun& run, double measured, const std::vector<double ModeCosts::*>& actions,
                   int64_t before) const;
  void scale(const MeasuredRun& run, double factor, double ModeCosts::*action, bool only_own_mode);
  void check(const MeasuredRun& run) const;
  void fold_run(const MeasuredRun& run);

  ModelCosts costs_;
  double weight_;
  int64_t steps_ = 0;
  std::vector<int64_t> measured_;  ///< by unit: in how many steps it was
};

}  // namespace penstock::planner
