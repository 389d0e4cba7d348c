#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/planner/plan.h"

namespace penstock::planner {

/// What a plan would become if one thing were otherwise, everything that is open chosen anew, or the plan as
/// it is where that is better.
struct Sensitivity {
  std::string change;   ///< "one chunk more", "twice the micro-batches", …
  std::string refusal;  ///< not "": why it cannot be had
  Candidate chosen;
  double seconds_per_token = 0;
  double gain = 0;  ///< share of the plan's seconds a token that is saved; negative: lost
};

/// One chunk more with the plan's own kind of schedule, twice the micro-batches, links twice as fast, a
/// quarter more memory (where there is a limit), and a head that is a quarter lighter. `plan` is what
/// make_plan made of `request`.
std::vector<Sensitivity> sensitivities(const PlanRequest& request, const Plan& plan);

/// What holds a plan back most, first things first, in words: each of its parts that is at least a hundredth
/// of the step, and the memory limit where ranks recompute because of it.
std::vector<std::string> limits(const PlanRequest& request, const Plan& plan);

}  // namespace penstock::planner
