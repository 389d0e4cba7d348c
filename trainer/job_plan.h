#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/transport/world.h"
#include "parallel/planner/plan.h"
#include "parallel/runtime/pipeline_plan.h"
#include "trainer/backend.h"
#include "trainer/job/job.h"
#include "trainer/job_costs.h"

namespace penstock {

/// Whether the job leaves something to the planner: schedule, chunks, slack or recomputation "auto", or
/// stages that are cut by measured costs.
bool leaves_open(const Job& job);

/// What the job asks of the planner: what it fixes stays, the rest is chosen. `memory_limit`: bytes of a
/// rank's device; nothing: no limit.
planner::PlanRequest plan_request(const Job& job, const JobCosts& costs, std::optional<int64_t> memory_limit);

/// The job with the plan's choices in place of what it left open.
Job decided_job(Job job, const planner::Plan& plan);

/// For generating and evaluating, which need no step: what the job leaves open is set to what costs nothing
/// to choose.
Job plain_job(Job job);

/// What `train` runs.
struct PlannedJob {
  Job job;  ///< nothing is open
  runtime::PipelineRequest request;
  /// On rank 0, where the job left something open.
  std::optional<planner::Plan> plan;
  planner::PlanRequest question;  ///< of `plan`
  std::string note;               ///< where costs come from; empty where nothing was planned
};

/// Plans the job with its costs (job_costs), if it leaves something open. Where there is a world, rank 0
/// plans and tells the others: collective. planner::PlanError, planner::PartitionError or
/// schedule::ScheduleError where nothing can be run.
PlannedJob planned_job(const Job& job, Backend& backend, transport::World* world);

}  // namespace penstock
