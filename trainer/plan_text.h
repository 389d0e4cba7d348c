#pragma once

#include <string>
#include <vector>

#include "parallel/planner/plan.h"
#include "parallel/planner/sensitivity.h"

namespace penstock {

/// One line: "zbv with 2 chunks: step 12.3 ms, bubble 4.1 %, imbalance 0.9 %; fullest rank 1.2 GiB".
std::string plan_line(const planner::Plan& plan);
/// Of every stage: rank, units, recompute mode, F R I W, the rank's busy time against the mean, slots,
/// memory.
std::string stage_map(const planner::Plan& plan, const planner::PlanRequest& request);
/// Step, tokens a second, latency, both bubble ratios, imbalance, idle by cause.
std::string step_table(const planner::Plan& plan, const planner::Machine& machine);
/// What each rank that has too little memory misses, a line a rank; empty where the plan fits.
std::string misfit_text(const planner::Prediction& prediction, const planner::Machine& machine);
/// Every schedule with the chunks and slack that suit it best, best first; `chosen`, of the plan that is
/// shown, is marked.
std::string schedule_table(const std::vector<planner::Candidate>& schedules, const planner::Candidate& chosen,
                           const planner::PlanRequest& request);
/// The chosen schedule with its stages cut by layers, parameters and FLOPs.
std::string cut_table(const planner::Plan& plan);

/// What one change would do to the plan.
std::string sensitivity_table(const std::vector<planner::Sensitivity>& rows);

/// "1f1b", "interleaved, 4 chunks", "1f1b, slack 2".
std::string name_of(const planner::Candidate& candidate);

}  // namespace penstock
