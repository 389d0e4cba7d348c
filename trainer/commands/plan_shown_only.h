#pragma once

#include <vector>

#include "parallel/planner/plan.h"

namespace penstock::commands {

/// Schedules with two copies of the weights, which are not chosen, and with two versions, which ranks do not
/// run: predicted with stages cut by time, the least recomputation that the job allows, and without memory
/// (Candidate::refusal says which it is). Those whose sizes are refused have no step.
std::vector<planner::Candidate> shown_only(const planner::PlanRequest& request);

}  // namespace penstock::commands
