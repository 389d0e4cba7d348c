#pragma once

#include <cstdint>
#include <string>

#include "parallel/planner/plan.h"

namespace penstock {

/// What a prediction says under the names that metrics.jsonl uses for a step that was run. Seconds.
struct PlanFigures {
  double fill = 0;   ///< until the last rank began
  double drain = 0;  ///< from when the first rank had ended
  int slowest_stage = 0;
  schedule::Idle idle;  ///< mean over the ranks, by cause
};
PlanFigures figures_of(const planner::Plan& plan);

/// Units of a stage by name: "embedding to mlp_3".
std::string units_of(const planner::ModelCosts& model, const planner::StagePlan& stage);

/// Stages in which recomputation was to be had, and why it saves nothing there; empty where there are none.
std::string without_saving(const planner::Plan& plan);

/// "7.91 ms", "1.23 s"; "384.0 MiB", "12.3 GiB".
std::string time_text(double seconds);
std::string bytes_text(int64_t bytes);

}  // namespace penstock
