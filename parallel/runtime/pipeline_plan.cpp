#include "parallel/runtime/pipeline_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "model/memory_plan.h"
#include "model/unit_id.h"
#include "parallel/planner/unit_sums.h"
#include "parallel/runtime/model_footprint.h"
#include "parallel/runtime/partition.h"
#include "parallel/runtime/slot_plan.h"
#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/forward_only.h"

namespace penstock::runtime {

using schedule::BufferPool;
using schedule::Program;
using schedule::Schedule;

namespace {

Schedule make_schedule(const ParallelSection& parallel, int64_t micro_batches, int steps = 1) {
  schedule::ScheduleOptions options;
  options.ranks = static_cast<int>(parallel.pipeline);
  options.micro_batches = static_cast<int>(micro_batches);
  options.chunks = static_cast<int>(parallel.chunks);
  options.warmup_slack = static_cast<int>(parallel.warmup_slack);
  options.steps = steps;
  Schedule made = schedule::generate(parallel.schedule, options);
  if (made.asynchronous && parallel.reduce_every > 0 && parallel.reduce_every < micro_batches) {
    throw UsageError(fmt::format(
        "parallel.reduce_every = {}: schedule \"{}\" has two sets of gradients for its two steps under way, "
        "and none for partial sums; set it to 0",
        parallel.reduce_every, parallel.schedule));
  }
  if (made.copies == 1) return made;
  if (const std::string refusal = copies_refusal(made); !refusal.empty())
    throw UsageError(fmt::format("schedule \"{}\": {}", parallel.schedule, refusal));
  if (parallel.reduce_every > 0 && parallel.reduce_every < micro_batches) {
    throw UsageError(
        fmt::format("parallel.reduce_every = {}: schedule \"{}\" sums its two copies of the weights "
                    "once a step; set it to 0",
                    parallel.reduce_every, parallel.schedule));
  }
  return made;
}

Schedule place_stages(const ParallelSection& parallel) {
  schedule::ScheduleOptions options;
  options.ranks = static_cast<int>(parallel.pipeline);
  options.micro_batches = 0;  // a file's own
  options.chunks = static_cast<int>(parallel.chunks);
  return schedule::placement(parallel.schedule, options);
}

// Of the weights, that a schedule runs.
int copies_of(const PipelineRequest& request) {
  const std::string& name = request.parallel.schedule;
  // "auto" never chooses two.
  if (name.rfind("file:", 0) != 0) return schedule::copies_of(name);
  return make_schedule(request.parallel, request.common.micro_batches).copies;
}

// A message is taken to delay by a tenth of a forward.
void add_links(schedule::Costs& costs) {
  double forward = 0;
  for (const schedule::StageCosts& stage : costs.blocks) forward += stage.forward;
  costs.links = {{0.1 * forward / static_cast<double>(costs.blocks.size()), 0}};
}

// By the FLOPs of a stage's units; the head computes everything in its backward.
schedule::Costs estimate(const ModelSection& model, const std::vector<int>& units) {
  std::vector<double> flops = unit_costs(model, PartitionMethod::flops);
  // Only ratios matter, and the simulator's numbers have a range.
  const double largest = *std::max_element(flops.begin(), flops.end());
  for (double& cost : flops) cost /= largest;
  schedule::Costs costs;
  size_t unit = 0;
  for (const int count : units) {
    schedule::StageCosts stage{0, 0, 0};
    for (const size_t end = unit + static_cast<size_t>(count); unit < end; ++unit) {
      const bool head = unit + 1 == flops.size();
      stage.forward += head ? 0 : flops[unit];
      stage.backward_input += head ? 3 * flops[unit] : flops[unit];
      stage.backward_weight += head ? 0 : flops[unit];
    }
    costs.blocks.push_back(stage);
  }
  add_links(costs);
  return costs;
}

// By known costs of the units; `modes`: a stage each.
schedule::Costs known(const planner::ModelCosts& known_costs, const std::vector<int>& units,
                      const std::vector<RecomputeMode>& modes) {
  const planner::UnitSums sums(known_costs);
  schedule::Costs costs;
  int unit = 0;
  for (size_t stage = 0; stage < units.size(); ++stage) {
    costs.blocks.push_back(sums.times(unit, unit + units[stage], planned_mode(modes[stage])));
    unit += units[stage];
  }
  add_links(costs);
  return costs;
}

// Units of each stage.
std::vector<int> cut(const PipelineRequest& request, int stages) {
  const ParallelSection& parallel = request.parallel;
  const ModelSection& model = request.common.model;
  if (!request.costs || parallel.partition != PartitionMethod::measured)
    return partition(model, parallel.partition, parallel.partition_units, stages);
  // Modes that differ by stage cannot be known before the stages are.
  const bool by_stage = !request.recompute.stages.empty();
  const auto mode = by_stage ? planner::Recompute::none : planned_mode(request.recompute.mode);
  return planner::cut_evenly(unit_seconds(*request.costs, mode), stages);
}

int buffers(const PipelinePlan& plan, int rank, BufferPool pool) {
  const auto count = [&](const Program& program) {
    return program.ranks[static_cast<size_t>(rank)].buffers[static_cast<size_t>(pool)];
  };
  const int most = std::max(count(plan.training), count(plan.evaluation));
  return plan.rolling ? std::max(most, count(plan.rolling->window)) : most;
}

std::vector<RecomputeMode> modes(const RecomputeSection& recompute, size_t stages) {
  std::vector<RecomputeMode> all(stages, recompute.mode);
  if (!recompute.stages.empty()) all = recompute.stages;
  if (all.size() != stages) {
    throw UsageError(fmt::format("recompute.stages has {} modes for {} stages", all.size(), stages));
  }
  return all;
}

model::RankConfig rank_config(const PipelineRequest& request, const PipelinePlan& plan, int rank) {
  model::RankConfig config = request.common;
  const SlotPlan training = plan_slots(plan.training, rank);
  const auto recompute = modes(request.recompute, plan.units.size());
  for (int stage = 0; stage < plan.stages(); ++stage) {
    if (plan.owner(stage) != rank) continue;
    const auto at = static_cast<size_t>(stage);
    const auto block = static_cast<size_t>(plan.training.schedule.block_of(stage));
    model::StageConfig made;
    made.begin = plan.first_unit(stage);
    made.end = made.begin + plan.units[block];
    made.recompute.assign(static_cast<size_t>(plan.units[block]), recompute[block]);
    made.copy = stage / plan.training.schedule.blocks();
    made.forward_slots = training.counts[at].forward;
    made.kept_slots = training.counts[at].kept;
    made.weight_slots = training.counts[at].weight;
    config.stages.push_back(std::move(made));
  }
  std::sort(config.stages.begin(), config.stages.end(),
            [](const model::StageConfig& a, const model::StageConfig& b) { return a.begin < b.begin; });
  config.output_buffers = std::max(1, buffers(plan, rank, BufferPool::activation_out));
  config.d_input_buffers = std::max(1, buffers(plan, rank, BufferPool::gradient_out));
  config.forward_only = request.forward_only;
  config.weight_versions = plan.overlaps() ? 2 : 1;
  config.gradient_sets = std::max(config.weight_versions, plan.reduction.windows.sets());
  config.shard.count = plan.reduction.shards();
  config.runtime_memory = reduction_memory(config, plan.reduction);
  const auto add = [&](ArenaTag tag, const char* name, size_t bytes) {
    config.runtime_memory.push_back({tag, name, aligned(bytes)});
  };
  for (const BufferPool pool : {BufferPool::activation_in, BufferPool::gradient_in}) {
    const auto count = static_cast<size_t>(buffers(plan, rank, pool));
    add(ArenaTag::communication, pool == BufferPool::activation_in ? "boundary.input" : "boundary.d_output",
        count * model::boundary_bytes(config));
  }
  add(ArenaTag::communication, "agreement",
      static_cast<size_t>(agreement_elements(config, plan.topology.replicas())) * size_of(DType::fp64));
  if (request.graphs) {
    add(ArenaTag::workspace, "graphs.losses", static_cast<size_t>(model::loss_terms) * size_of(DType::fp64));
  }
  if (request.logits) {
    add(ArenaTag::communication, "generation.logits",
        static_cast<size_t>(config.model.vocab_size) * size_of(DType::fp32));
  }
  return config;
}

// The training program, and that of steps that follow one another.
void lower_training(const PipelineRequest& request, const Schedule& schedule, PipelinePlan& plan) {
  const ParallelSection& parallel = request.parallel;
  const schedule::Costs costs =
      request.costs ? known(*request.costs, plan.units, modes(request.recompute, plan.units.size()))
                    : estimate(request.common.model, plan.units);
  schedule::LoweringOptions options;
  options.receive_lead = sufficient_receive_lead(schedule, costs);
  options.reduce_gradients = parallel.data > 1;
  options.reduce_every = plan.reduction.windows.every;
  options.tied_embeddings = request.common.model.tie_embeddings;
  options.sharded_optimizer = plan.reduction.shards() > 1;
  plan.training = lower(schedule, costs, options);
  if (schedule.asynchronous) {
    const int steps = schedule::RollingProgram::steps;
    plan.rolling = roll(make_schedule(parallel, request.common.micro_batches, steps), costs, options);
  }
}

}  // namespace

int PipelinePlan::first_unit(int stage) const {
  return std::accumulate(units.begin(), units.begin() + training.schedule.block_of(stage), 0);
}

int PipelinePlan::member(int world_rank) const {
  const Place place = topology.place(world_rank);
  if (training.schedule.copies == 1) return place.replica;
  return 2 * place.replica + (2 * place.pipeline < topology.pipeline() ? 0 : 1);
}

bool PipelinePlan::holds(int rank, int block) const {
  for (int stage = block; stage < stages(); stage += training.schedule.blocks()) {
    if (owner(stage) == rank) return true;
  }
  return false;
}

int64_t agreement_elements(const model::RankConfig& config, int replicas) {
  return static_cast<int64_t>(model::model_parameters(config.model).size()) +
         replicas * config.micro_batches * model::loss_terms;
}

ReductionOptions reduction_of(const PipelineRequest& request) {
  const ParallelSection& parallel = request.parallel;
  if (request.forward_only) {
    ReductionOptions nothing;
    nothing.windows = {0, static_cast<int>(request.common.micro_batches)};
    return nothing;
  }
  // One replica has nothing to sum: its windows would only change the order of additions.
  GradientWindows windows{0, static_cast<int>(request.common.micro_batches)};
  if (parallel.data > 1 && parallel.reduce_every < request.common.micro_batches)
    windows.every = static_cast<int>(parallel.reduce_every);
  return {static_cast<int>(parallel.data), copies_of(request),    parallel.bucket_mib,
          parallel.gradient_sum,           request.gradient_wire, windows,
          parallel.sharded_optimizer};
}

PipelinePlan plan_pipeline(const PipelineRequest& request) {
  const ParallelSection& parallel = request.parallel;
  PipelinePlan plan;
  plan.topology =
      Topology(static_cast<int>(parallel.pipeline), static_cast<int>(parallel.data), parallel.order);
  const Schedule schedule =
      request.forward_only ? place_stages(parallel) : make_schedule(parallel, request.common.micro_batches);
  if (request.costs &&
      request.costs->units.size() != static_cast<size_t>(model::unit_count(request.common.model))) {
    throw UsageError(fmt::format("costs of {} units for a model of {}", request.costs->units.size(),
                                 model::unit_count(request.common.model)));
  }
  plan.units = cut(request, schedule.blocks());
  plan.reduction = reduction_of(request);
  plan.graphs = request.graphs;
  plan.evaluation = forward_only(schedule, static_cast<int>(request.common.micro_batches));
  if (request.forward_only) {
    plan.training = plan.evaluation;
  } else {
    lower_training(request, schedule, plan);
  }
  for (int rank = 0; rank < plan.topology.pipeline(); ++rank)
    plan.ranks.push_back(rank_config(request, plan, rank));
  return plan;
}

}  // namespace penstock::runtime
