#include "trainer/arranged_job.h"

#include <algorithm>
#include <utility>

#include "parallel/runtime/model_footprint.h"
#include "trainer/job_profile.h"

namespace penstock {

planner::Layout layout_of(const runtime::PipelinePlan& plan, const RecomputeSection& recompute) {
  planner::Layout layout;
  layout.units = plan.units;
  for (size_t stage = 0; stage < plan.units.size(); ++stage) {
    layout.recompute.push_back(
        runtime::planned_mode(recompute.stages.empty() ? recompute.mode : recompute.stages[stage]));
  }
  return layout;
}

budget::Arrangement arrangement_of(const Job& job, const runtime::PipelinePlan& plan) {
  return {job.parallel.schedule, plan.training.schedule.chunks, static_cast<int>(job.parallel.warmup_slack),
          0, layout_of(plan, job.recompute)};
}

Job arranged_job(Job job, const budget::Arrangement& arrangement) {
  job.parallel.schedule = arrangement.schedule;
  job.parallel.chunks = arrangement.chunks;
  job.parallel.warmup_slack = arrangement.slack;
  const planner::Layout& layout = arrangement.layout;
  job.parallel.partition = PartitionMethod::units;
  job.parallel.partition_units.assign(layout.units.begin(), layout.units.end());
  job.recompute.stages.clear();
  const planner::Recompute first = layout.recompute.front();
  if (std::all_of(layout.recompute.begin(), layout.recompute.end(),
                  [&](planner::Recompute mode) { return mode == first; })) {
    job.recompute.mode = runtime::recompute_mode(first);
  } else {
    job.recompute.mode = RecomputeMode::none;
    for (const planner::Recompute mode : layout.recompute)
      job.recompute.stages.push_back(runtime::recompute_mode(mode));
  }
  return job;
}

std::vector<int64_t> micro_batch_sizes(const Job& job, const Device& device) {
  std::vector<int64_t> sizes{job.batch.micro};
  const std::vector<BudgetAction>& actions = job.bubble_budget.actions;
  const bool allowed = std::find(actions.begin(), actions.end(), BudgetAction::micro_batch) != actions.end();
  if (!allowed || device.kind() != DeviceKind::cpu) return sizes;
  for (const int64_t size : usual_micro_batches(job)) {
    if (size != job.batch.micro) sizes.push_back(size);
  }
  return sizes;
}

budget::ControllerOptions controller_options(const Job& job, const runtime::PipelinePlan& plan,
                                             const JobCosts& costs) {
  budget::ControllerOptions options;
  options.budget = job.bubble_budget;
  options.machine.ranks = plan.topology.pipeline();
  options.machine.replicas = plan.topology.replicas();
  options.machine.links = costs.links;
  options.machine.pace = costs.pace;
  options.workloads = {{costs.model, plan.training.schedule.micro_batches}};
  const int64_t sequences = job.batch.micro * job.micro_batches();
  for (const planner::ModelCosts& other : costs.other_sizes)
    options.workloads.push_back({other, static_cast<int>(sequences / other.micro_batch)});
  options.first = arrangement_of(job, plan);
  return options;
}

}  // namespace penstock
