#include "trainer/commands/replay_source.h"

#include <utility>

#include <fmt/format.h>

#include "parallel/planner/profile.h"
#include "parallel/planner/rank_memory.h"
#include "parallel/planner/unit_sums.h"
#include "parallel/runtime/model_footprint.h"
#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/validate.h"
#include "trainer/backend.h"
#include "trainer/commands/schedule_answer.h"
#include "trainer/corpus.h"
#include "trainer/job_costs.h"

namespace penstock::commands {

namespace {

using schedule::ScheduleError;

constexpr double millisecond = 1e-3;

schedule::StageCosts seconds(const schedule::StageCosts& ms) {
  return {ms.forward * millisecond, ms.backward_input * millisecond, ms.backward_weight * millisecond};
}

schedule::Costs given_costs(const ReplaySourceArguments& arguments, const schedule::Schedule& schedule) {
  const RankCosts rank = read_costs(arguments.costs);
  schedule::Costs costs =
      uniform_costs(schedule.ranks, schedule.chunks, seconds(rank.stage), rank.transfer * millisecond);
  if (!arguments.stages.empty()) {
    if (arguments.stages.size() != costs.blocks.size()) {
      throw ScheduleError(fmt::format("--stage-costs was given {} times for {} stages",
                                      arguments.stages.size(), costs.blocks.size()));
    }
    for (size_t stage = 0; stage < costs.blocks.size(); ++stage)
      costs.blocks[stage] = seconds(read_costs(arguments.stages[stage]).stage);
  }
  costs.gradient_reduction = {arguments.reduction * millisecond};
  costs.tied_sum = arguments.tied_sum * millisecond;
  costs.optimizer_step = arguments.optimizer * millisecond;
  return costs;
}

std::string title(const schedule::Schedule& schedule) {
  return fmt::format("{}: P = {}, M = {}, v = {}", schedule.name, schedule.ranks, schedule.micro_batches,
                     schedule.chunks);
}

planner::Layout layout_of(const runtime::PipelinePlan& plan, const RecomputeSection& recompute) {
  planner::Layout layout;
  layout.units = plan.units;
  for (size_t stage = 0; stage < plan.units.size(); ++stage) {
    layout.recompute.push_back(
        runtime::planned_mode(recompute.stages.empty() ? recompute.mode : recompute.stages[stage]));
  }
  return layout;
}

// A profile that was named counts for any device: a rehearsal is of another machine.
JobCosts costs_of(const ReplaySourceArguments& arguments, const Job& job, Backend& backend) {
  if (arguments.profile.empty()) return job_costs(job, backend, nullptr);
  const planner::Profile profile = planner::read_profile_file(arguments.profile);
  JobCosts costs;
  costs.model = planner::model_costs(profile, job.batch.micro);
  costs.links = planner::link_costs(profile, static_cast<int>(job.parallel.pipeline));
  costs.note = fmt::format("unit costs as measured on {}: {}", profile.device, arguments.profile);
  return costs;
}

}  // namespace

ReplaySource job_source(const ReplaySourceArguments& arguments) {
  Job job = arguments.job.read();
  Corpus::open_tokenizer(job);
  Backend backend = make_backend(job, 0);
  JobCosts costs = costs_of(arguments, job, backend);
  runtime::PipelineRequest request = pipeline_request(job);
  request.costs = costs.model;
  runtime::PipelinePlan plan = plan_pipeline(request);
  if (costs.model.units.size() !=
      static_cast<size_t>(plan.first_unit(plan.last_stage()) + plan.units.back())) {
    throw planner::ProfileError(fmt::format(
        "{} has costs of {} units, the job's model has {}: it is of another model", arguments.profile,
        costs.model.units.size(), plan.first_unit(plan.last_stage()) + plan.units.back()));
  }
  planner::Machine machine;
  machine.ranks = plan.topology.pipeline();
  machine.replicas = plan.topology.replicas();
  machine.links = costs.links;
  machine.links.traffic_slowdown = 0;  // a replay's actions take their time, whatever passes beside them
  const planner::UnitSums sums(costs.model);
  ReplaySource made;
  made.costs = layout_costs(sums, machine, plan.training.schedule, layout_of(plan, request.recompute));
  made.title = fmt::format("{}: {}; {}", arguments.job.file, title(plan.training.schedule), costs.note);
  made.program = std::move(plan.training);
  return made;
}

ReplaySource schedule_source(const ReplaySourceArguments& arguments) {
  schedule::find_schedule_kind(arguments.schedule);  // a misspelt name is said before a missing number
  if (arguments.pipeline == 0) throw ScheduleError("--pipeline is missing: the number of pipeline ranks P");
  if (arguments.micro_batches == 0)
    throw ScheduleError("--micro-batches is missing: the micro-batches M of a step");
  schedule::ScheduleOptions options;
  options.ranks = arguments.pipeline;
  options.micro_batches = arguments.micro_batches;
  options.chunks = arguments.chunks;
  options.warmup_slack = arguments.warmup_slack;
  const schedule::Schedule schedule = schedule::generate(arguments.schedule, options);
  if (schedule.copies != 1 || schedule.asynchronous) {
    throw ScheduleError(fmt::format("schedule \"{}\" {}: a replay runs synchronous schedules with one copy",
                                    schedule.name,
                                    schedule.asynchronous ? "is asynchronous" : "runs two copies"));
  }
  ReplaySource made;
  made.costs = given_costs(arguments, schedule);
  schedule::LoweringOptions lowering;
  lowering.reduce_gradients = arguments.reduction > 0;
  lowering.tied_embeddings = arguments.tied_sum > 0;
  lowering.receive_lead = sufficient_receive_lead(schedule, made.costs, lowering);
  made.program = lower(schedule, made.costs, lowering);
  require_valid(made.program);
  made.title = title(schedule);
  return made;
}

}  // namespace penstock::commands
