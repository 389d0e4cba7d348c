#include "trainer/job_plan.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "parallel/runtime/model_footprint.h"
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

// What a plan decided, as rank 0 tells the others.
std::string text_of(const Job& job) {
  nlohmann::json stages = nlohmann::json::array();
  for (const RecomputeMode mode : job.recompute.stages) stages.push_back(static_cast<int>(mode));
  return nlohmann::json{{"schedule", job.parallel.schedule},
                        {"chunks", job.parallel.chunks},
                        {"warmup_slack", job.parallel.warmup_slack},
                        {"partition", job.parallel.partition_units},
                        {"recompute", static_cast<int>(job.recompute.mode)},
                        {"stages", stages}}
      .dump();
}

void take(const std::string& text, Job& job) {
  const nlohmann::json told = nlohmann::json::parse(text);
  job.parallel.schedule = told.at("schedule").get<std::string>();
  job.parallel.chunks = told.at("chunks").get<int64_t>();
  job.parallel.warmup_slack = told.at("warmup_slack").get<int64_t>();
  job.parallel.partition = PartitionMethod::units;
  job.parallel.partition_units = told.at("partition").get<std::vector<int64_t>>();
  job.recompute.mode = static_cast<RecomputeMode>(told.at("recompute").get<int>());
  job.recompute.stages.clear();
  for (const auto& mode : told.at("stages"))
    job.recompute.stages.push_back(static_cast<RecomputeMode>(mode.get<int>()));
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
  job.parallel.schedule = plan.chosen.schedule;
  job.parallel.chunks = plan.chosen.chunks;
  job.parallel.warmup_slack = plan.chosen.slack;
  const planner::Layout& layout = plan.chosen.layout;
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
  if (world == nullptr || world->rank() == 0) {
    planned.question = plan_request(
        job, costs, device_memory_limit(job, *backend.device, job.parallel.pipeline * job.parallel.data));
    planned.plan = planner::make_plan(planned.question);
    planned.job = decided_job(job, *planned.plan);
  }
  if (world != nullptr && world->size() > 1)
    take(world->broadcast(world->rank() == 0 ? text_of(planned.job) : std::string(), 0), planned.job);
  planned.request = pipeline_request(planned.job);
  planned.request.costs = std::move(costs.model);
  return planned;
}

}  // namespace penstock
