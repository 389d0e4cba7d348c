// A job in the words of the planner's arrangements, and back.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device/device.h"
#include "parallel/runtime/pipeline_plan.h"
#include "trainer/budget/controller.h"
#include "trainer/job/job.h"
#include "trainer/job_costs.h"

namespace penstock {

planner::Layout layout_of(const runtime::PipelinePlan& plan, const RecomputeSection& recompute);
/// How a decided job runs; `plan` is its own.
budget::Arrangement arrangement_of(const Job& job, const runtime::PipelinePlan& plan);
/// The job, in that arrangement: nothing is left open. Micro-batches keep their size.
Job arranged_job(Job job, const budget::Arrangement& arrangement);

/// Sizes of micro-batches that a run may take, by Arrangement::workload: the job's own first; others only
/// where the budget allows them, and products are not planned for one size (CUDA).
std::vector<int64_t> micro_batch_sizes(const Job& job, const Device& device);

/// What a controller of the job needs to know, without a memory limit. `plan`: how it begins.
budget::ControllerOptions controller_options(const Job& job, const runtime::PipelinePlan& plan,
                                             const JobCosts& costs);

}  // namespace penstock
