#include "trainer/commands/replay_source.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "parallel/planner/rank_memory.h"
#include "parallel/planner/unit_sums.h"
#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/validate.h"
#include "trainer/arranged_job.h"
#include "trainer/backend.h"
#include "trainer/commands/schedule_answer.h"
#include "trainer/corpus.h"
#include "trainer/job_costs.h"
#include "trainer/job_plan.h"
#include "trainer/memory_limit.h"

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

}  // namespace

ReplaySource job_source(const ReplaySourceArguments& arguments) {
  Job job = arguments.job.read();
  Corpus::open_tokenizer(job);
  Backend backend = make_backend(job, 0);
  const JobCosts costs = arguments.profile.empty() ? job_costs(job, backend, nullptr)
                                                   : costs_from_profile(job, backend, arguments.profile);
  if (leaves_open(job)) {
    std::optional<int64_t> limit = stated_memory_limit(job);
    if (limit) limit = arena_limit(job, *limit);
    job = decided_job(job, planner::make_plan(plan_request(job, costs, limit)));
  }
  runtime::PipelineRequest request = pipeline_request(job);
  request.costs = costs.model;
  runtime::PipelinePlan plan = plan_pipeline(request);
  ReplaySource made;
  budget::ControllerOptions& arranged = made.arranged.emplace(controller_options(job, plan, costs));
  arranged.machine.links.traffic_slowdown =
      0;  // a replay's actions take their time, whatever passes beside them
  if (const std::optional<int64_t> limit = stated_memory_limit(job)) arranged.machine.memory_limit = {*limit};
  made.costs = layout_costs(planner::UnitSums(costs.model), arranged.machine, plan.training.schedule,
                            arranged.first.layout);
  made.title = fmt::format("{}: {}; {}", arguments.job.file, title(plan.training.schedule), costs.note);
  made.program = std::move(plan.training);
  made.rolling = std::move(plan.rolling);
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
  if (const std::string refusal = copies_refusal(schedule); !refusal.empty()) throw ScheduleError(refusal);
  ReplaySource made;
  made.costs = given_costs(arguments, schedule);
  schedule::LoweringOptions lowering;
  lowering.reduce_gradients = arguments.reduction > 0;
  lowering.tied_embeddings = arguments.tied_sum > 0;
  lowering.receive_lead = sufficient_receive_lead(schedule, made.costs, lowering);
  made.program = lower(schedule, made.costs, lowering);
  require_valid(made.program);
  if (schedule.asynchronous) {
    options.steps = schedule::RollingProgram::steps;
    made.rolling = roll(schedule::generate(arguments.schedule, options), made.costs, lowering);
  }
  made.title = title(schedule);
  return made;
}

}  // namespace penstock::commands
