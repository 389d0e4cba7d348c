#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "parallel/planner/plan.h"
#include "parallel/planner/sensitivity.h"

namespace penstock {

/// A plan under the names of metrics.jsonl and of budgets, as plan.json and `plan --json` hold it. `request`:
/// what it was made for.
nlohmann::ordered_json to_json(const planner::Plan& plan, const planner::PlanRequest& request);
/// One of a plan's schedules.
nlohmann::ordered_json to_json(const planner::Candidate& candidate, const planner::PlanRequest& request);
nlohmann::ordered_json to_json(const std::vector<planner::Sensitivity>& rows);

}  // namespace penstock
