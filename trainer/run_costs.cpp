#include "trainer/run_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "parallel/planner/rank_memory.h"
#include "parallel/planner/unit_sums.h"
#include "trainer/arranged_job.h"

namespace penstock {

using schedule::InstructionKind;
using schedule::Op;

RunCosts::RunCosts(const runtime::PipelinePlan& plan, const Job& job, JobCosts costs)
    : given_(std::move(costs)), refined_(given_.model) {
  rearranged(plan, job);
}

void RunCosts::rearranged(const runtime::PipelinePlan& plan, const Job& job) {
  plan_ = &plan;
  if (refined_.costs().micro_batch != job.batch.micro) begin_with(job.batch.micro);
  layout_ = layout_of(plan, job.recompute);
  stages_by_rank_ = plan.training.schedule.stages_by_rank();
}

void RunCosts::begin_with(int64_t micro_batch) {
  if (given_.model.micro_batch == micro_batch) refined_ = planner::RefinedCosts(given_.model);
  for (const planner::ModelCosts& other : given_.other_sizes) {
    if (other.micro_batch == micro_batch) refined_ = planner::RefinedCosts(other);
  }
}

// Recomputation is measured on one micro-batch, whose share stands for all.
planner::MeasuredRun RunCosts::measured(const accounting::RankTimes& times, int stage) const {
  planner::MeasuredRun run;
  const auto block = static_cast<size_t>(plan_->training.schedule.block_of(stage));
  const int first = plan_->first_unit(stage);
  for (int unit = first; unit < first + plan_->unit_count(stage); ++unit)
    run.members.push_back({unit, layout_.recompute[block]});
  const auto rank = static_cast<size_t>(plan_->owner(stage));
  const auto& list = plan_->training.ranks[rank].instructions;
  double first_input = 0;
  run.micro_batches = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const schedule::Action& action = list[i].action;
    if (list[i].kind != InstructionKind::compute || action.stage != stage) continue;
    const accounting::InstructionTimes& at = times.instructions[i];
    const double middle = action.op == Op::backward && at.middle != 0 ? at.middle : at.end;
    if (action.op == Op::forward) {
      ++run.micro_batches;
      run.forward += at.end - at.start;
    }
    if (gives_input_gradient(action.op)) {
      run.backward_input += middle - at.start;
      if (first_input == 0) first_input = middle - at.start;
    }
    if (action.op == Op::backward) run.backward_weight += at.end - middle;
    if (action.op == Op::backward_weight) run.backward_weight += at.end - at.start;
  }
  const std::vector<int>& own = stages_by_rank_[rank];
  const auto index = static_cast<size_t>(std::find(own.begin(), own.end(), stage) - own.begin());
  if (index < times.recompute.size() && first_input > 0) {
    run.recompute = std::clamp(times.recompute[index] / first_input, 0.0, 1.0) * run.backward_input;
    run.backward_input -= *run.recompute;
  }
  return run;
}

void RunCosts::add(std::span<const accounting::RankTimes> ranks) {
  std::vector<planner::MeasuredRun> step;
  const auto blocks = static_cast<size_t>(plan_->training.schedule.blocks());
  for (int stage = 0; stage < plan_->stages(); ++stage) {
    planner::MeasuredRun run = measured(ranks[static_cast<size_t>(plan_->owner(stage))], stage);
    if (step.size() < blocks) {
      step.push_back(std::move(run));
    } else {
      step[static_cast<size_t>(stage) % blocks].add(run);  // a copy of the same units
    }
  }
  refined_.fold(step);
}

schedule::Costs RunCosts::costs_of(const planner::ModelCosts& model) const {
  planner::Machine machine;
  machine.ranks = plan_->topology.pipeline();
  machine.replicas = plan_->topology.replicas();
  machine.links = given_.links;
  // What a rank's units take on that rank is measured there.
  if (refined_.steps() == 0) machine.pace = given_.pace;
  return layout_costs(planner::UnitSums(model), machine, plan_->training.schedule, layout_);
}

schedule::Costs RunCosts::costs() const {
  return costs_of(refined_.costs());
}

JobCosts RunCosts::measured() const {
  JobCosts made = given_;
  if (refined_.steps() == 0) return made;
  made.model = refined_.costs();
  made.pace = {1};
  return made;
}

RunCosts::Difference RunCosts::difference() const {
  const schedule::Costs before = costs_of(given_.model);
  const schedule::Costs after = costs();
  const auto work = [](const schedule::StageCosts& stage) {
    return stage.forward + stage.backward_input + stage.backward_weight;
  };
  Difference found;
  double sum_before = 0;
  double sum_after = 0;
  for (size_t stage = 0; stage < after.blocks.size(); ++stage) {
    sum_before += work(before.blocks[stage]);
    sum_after += work(after.blocks[stage]);
    const double own = work(after.blocks[stage]) / work(before.blocks[stage]) - 1;
    if (std::abs(own) <= std::abs(found.largest)) continue;
    found.stage = static_cast<int>(stage);
    found.largest = own;
  }
  found.all = sum_after / sum_before - 1;
  return found;
}

}  // namespace penstock
