#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "parallel/planner/machine.h"
#include "parallel/planner/plan.h"
#include "parallel/planner/rank_memory.h"
#include "parallel/planner/step_forecast.h"
#include "parallel/planner/unit_sums.h"

namespace penstock::budget {

/// All that an action may change of a running pipeline: who holds what, in which order it is computed.
struct Arrangement {
  std::string schedule = "1f1b";
  int chunks = 1;
  int slack = 0;
  size_t workload = 0;     ///< which of the micro-batch sizes that are known
  planner::Layout layout;  ///< units and recompute modes of the stages

  friend bool operator==(const Arrangement&, const Arrangement&) = default;
};

/// "1f1b, slack 1, units 9 8 8 9, recompute full in stages 0 1".
std::string to_string(const Arrangement& arrangement);

/// As events, checkpoints and ranks tell each other of it; arrangement_from() reads it, and throws nlohmann's
/// exceptions or schedule::ScheduleError for JSON of another form.
nlohmann::json json_of(const Arrangement& arrangement);
Arrangement arrangement_from(const nlohmann::json& told);

/// "none", "selective", "full"; schedule::ScheduleError for another name.
planner::Recompute recompute_named(const std::string& name);

/// What a planner chose.
Arrangement arrangement_of(const planner::Candidate& candidate);

/// An arrangement that is simulated again and again, with the costs of this step and of that.
class SimulatedArrangement {
 public:
  /// `machine`: its ranks, replicas and links; `micro_batches`: of a replica's step. schedule::ScheduleError
  /// for a schedule that cannot be had.
  SimulatedArrangement(Arrangement arrangement, const planner::Machine& machine, int micro_batches,
                       bool tied_embeddings);

  /// Seconds of a step, with these costs and `pace` by rank (P).
  double step(const planner::UnitSums& sums, const std::vector<double>& pace);
  /// Seconds of F, I (with R) and W of a rank in a step by `sums`, at pace 1: (P).
  std::vector<std::array<double, 3>> work(const planner::UnitSums& sums) const;

  const Arrangement& arrangement() const { return arrangement_; }
  int rank_of_unit(int unit) const { return rank_of_unit_[static_cast<size_t>(unit)]; }
  const schedule::Schedule& schedule() const { return forecast_.schedule(); }

 private:
  Arrangement arrangement_;
  planner::Machine machine_;
  planner::StepForecast forecast_;
  std::vector<int> rank_of_unit_;
};

}  // namespace penstock::budget
