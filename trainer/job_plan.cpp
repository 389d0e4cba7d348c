#include "trainer/job_plan.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "parallel/runtime/model_footprint.h"
#include "trainer/arranged_job.h"
#include "trainer/memory_limit.h"

namespace penstock {
namespace {

planner::CutBy cut_of(PartitionMethod method) {
  switch (method) {
    case PartitionMethod::measured:
      return planner::CutBy::measured;
    case PartitionMethod::parameters:
      return planner::CutBy::parameters;
    case PartitionMethod::flops:
      return planner::CutBy::flops;
    case PartitionMethod::layers:
      return planner::CutBy::layers;
    case PartitionMethod::units:
      return planner::CutBy::listed;
  }
  return planner::CutBy::measured;
}

planner::RecomputeChoice recompute_choice(const RecomputeSection& recompute) {
  planner::RecomputeChoice choice;
  if (!recompute.stages.empty()) {
    for (const RecomputeMode mode : recompute.stages) choice.fixed.push_back(runtime::planned_mode(mode));
  } else if (recompute.mode != RecomputeMode::automatic) {
    choice.allowed.fill(false);
    choice.allowed[static_cast<size_t>(runtime::planned_mode(recompute.mode))] = true;
  }
  return choice;
}

}  // namespace

bool leaves_open(const Job& job) {
  const ParallelSection& parallel = job.parallel;
  const bool automatic = parallel.schedule == "auto" || parallel.chunks == 0 || parallel.warmup_slack < 0;
  const bool cuts =
      parallel.partition == PartitionMethod::measured && parallel.pipeline * parallel.chunks != 1;
  const bool recompute = job.recompute.mode == RecomputeMode::automatic && job.recompute.stages.empty();
  return automatic || cuts || recompute;
}

planner::PlanRequest plan_request(const Job& job, const JobCosts& costs,
                                  std::optional<int64_t> memory_limit) {
  planner::PlanRequest request;
  request.machine.ranks = static_cast<int>(job.parallel.pipeline);
  request.machine.replicas = static_cast<int>(job.parallel.data);
  request.machine.links = costs.links;
  request.machine.pace = costs.pace;
  if (memory_limit) request.machine.memory_limit = {*memory_limit};
  request.workloads = {{costs.model, static_cast<int>(job.micro_batches())}};
  request.schedule = job.parallel.schedule;
  request.chunks = static_cast<int>(job.parallel.chunks);
  request.slack = static_cast<int>(job.parallel.warmup_slack);
  request.cut = cut_of(job.parallel.partition);
  request.listed.assign(job.parallel.partition_units.begin(), job.parallel.partition_units.end());
  request.recompute = recompute_choice(job.recompute);
  return request;
}

Job decided_job(Job job, const planner::Plan& plan) {
  return arranged_job(std::move(job), budget::arrangement_of(plan.chosen));
}

Job plain_job(Job job) {
  if (job.parallel.schedule == "auto") {
    job.parallel.chunks = std::max<int64_t>(1, job.parallel.chunks);
    job.parallel.schedule = job.parallel.chunks > 1 ? "interleaved" : "1f1b";
  }
  job.parallel.warmup_slack = std::max<int64_t>(0, job.parallel.warmup_slack);
  if (job.recompute.mode == RecomputeMode::automatic) job.recompute.mode = RecomputeMode::none;
  return job;
}

PlannedJob planned_job(const Job& job, Backend& backend, transport::World* world) {
  PlannedJob planned;
  planned.job = job;
  if (!leaves_open(job)) {
    planned.request = pipeline_request(job);
    return planned;
  }
  JobCosts costs = job_costs(job, backend, world);
  planned.note = std::move(costs.note);
  std::string chosen;
  if (world == nullptr || world->rank() == 0) {
    planned.question = plan_request(
        job, costs, device_memory_limit(job, *backend.device, job.parallel.pipeline * job.parallel.data));
    planned.plan = planner::make_plan(planned.question);
    chosen = budget::json_of(budget::arrangement_of(planned.plan->chosen)).dump();
  }
  if (world != nullptr && world->size() > 1) chosen = world->broadcast(chosen, 0);
  planned.job = arranged_job(job, budget::arrangement_from(nlohmann::json::parse(chosen)));
  planned.request = pipeline_request(planned.job);
  planned.request.costs = std::move(costs.model);
  return planned;
}

}  // namespace penstock
