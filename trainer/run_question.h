#pragma once

#include "parallel/planner/plan.h"
#include "trainer/job/job.h"
#include "trainer/job_costs.h"

namespace penstock {

/// A run as it is asked about: its arrangement with nothing left open, at `costs`. Memory is limited where
/// the job says by how much. `job`: decided, as the run folder's job.toml.
planner::PlanRequest running_question(const Job& job, const JobCosts& costs);

}  // namespace penstock
