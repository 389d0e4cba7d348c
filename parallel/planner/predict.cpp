#include "parallel/planner/predict.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "parallel/schedule/forward_only.h"
#include "parallel/schedule/middle.h"
#include "parallel/schedule/simulate.h"

namespace penstock::planner {

using schedule::Instruction;
using schedule::InstructionKind;
using schedule::Op;
using schedule::Program;

namespace {

// Median over the micro-batches, from the start of the first stage's forward to the end of its gradient.
double micro_batch_latency(const Program& program, const schedule::Timeline& timeline) {
  std::vector<double> latencies(static_cast<size_t>(program.schedule.micro_batches), 0);
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const auto& list = program.ranks[rank].instructions;
    for (size_t i = 0; i < list.size(); ++i) {
      const Instruction& at = list[i];
      if (at.kind != InstructionKind::compute || !program.schedule.is_first(at.action.stage)) continue;
      double& latency = latencies[static_cast<size_t>(at.action.micro_batch)];
      if (at.action.op == Op::forward) latency -= timeline.spans[rank][i].start;
      if (gives_input_gradient(at.action.op)) latency += timeline.spans[rank][i].end;
    }
  }
  return schedule::middle(latencies);
}

double tokens_per_step(const LayoutScorer& scorer) {
  return static_cast<double>(scorer.sums().model().tokens) * scorer.schedule().micro_batches *
         scorer.machine().replicas;
}

}  // namespace

void complete(Prediction& prediction, const Machine& machine, double tokens) {
  const schedule::Measures& measures = prediction.measures;
  prediction.step = measures.step_time;
  prediction.tokens_per_second = prediction.step > 0 ? tokens / prediction.step : 0;
  double busy = 0;
  double slowest = 0;
  for (size_t r = 0; r < measures.ranks.size(); ++r) {
    busy += measures.ranks[r].busy / static_cast<double>(measures.ranks.size());
    if (measures.ranks[r].busy <= slowest) continue;
    slowest = measures.ranks[r].busy;
    prediction.slowest_rank = static_cast<int>(r);
  }
  prediction.imbalance = busy > 0 ? slowest / busy - 1 : 0;
  prediction.idle_ratio = prediction.step > 0 ? 1 - busy / prediction.step : 0;
  for (size_t r = 0; r < prediction.memory.size(); ++r) {
    const int64_t bytes = prediction.memory[r].total();
    prediction.peak_memory = std::max(prediction.peak_memory, bytes);
    prediction.fits = prediction.fits && bytes <= machine.limit_of(static_cast<int>(r));
  }
}

Prediction predict_by_graph(LayoutScorer& scorer, const Layout& layout) {
  scorer.settle(layout);
  scorer.score_as_it_is(layout);
  Prediction prediction;
  prediction.measures =
      scorer.forecast().measure(layout_costs(scorer.sums(), scorer.machine(), scorer.schedule(), layout));
  prediction.micro_batch_latency = scorer.forecast().micro_batch_latency();
  prediction.memory = scorer.memory(layout);
  complete(prediction, scorer.machine(), tokens_per_step(scorer));
  return prediction;
}

SimulatedStep predict_by_program(const LayoutScorer& scorer, const Layout& layout) {
  const schedule::Schedule& order = scorer.schedule();
  SimulatedStep step;
  step.costs = layout_costs(scorer.sums(), scorer.machine(), order, layout);
  step.options.reduce_gradients = scorer.machine().replicas > 1;
  step.options.tied_embeddings = scorer.sums().model().tied_embeddings;
  step.options.receive_lead = sufficient_receive_lead(order, step.costs, step.options);
  const Program program = lower(order, step.costs, step.options);
  const schedule::Timeline timeline = simulate(program, step.costs);
  step.prediction.measures = measure(program, timeline);
  step.prediction.micro_batch_latency = micro_batch_latency(program, timeline);
  step.prediction.simulated = true;
  const Program evaluation = schedule::forward_only(order, order.micro_batches);
  const std::vector<SlotCounts> slots = slot_counts(order);
  for (int rank = 0; rank < order.ranks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    BoundaryBuffers most = program.ranks[r].buffers;
    for (size_t pool = 0; pool < most.size(); ++pool)
      most[pool] = std::max(most[pool], evaluation.ranks[r].buffers[pool]);
    step.buffers.push_back(most);
    step.prediction.memory.push_back(rank_memory(scorer.sums(), order, layout, slots, most, rank));
  }
  complete(step.prediction, scorer.machine(), tokens_per_step(scorer));
  return step;
}

StepParts step_parts(LayoutScorer& scorer, const Layout& layout, const Prediction& prediction) {
  const schedule::Measures& measures = prediction.measures;
  const schedule::Schedule& order = scorer.schedule();
  StepParts parts;
  double recompute = 0;
  for (const StagePlan& stage : stage_plans(scorer, layout))
    recompute += stage.recompute_time * order.micro_batches / order.copies;
  double busy = 0;
  double slowest = 0;
  for (const schedule::RankMeasures& rank : measures.ranks) {
    busy += rank.busy / order.ranks;
    slowest = std::max(slowest, rank.busy);
  }
  parts.recompute = recompute / order.ranks;
  parts.work = busy - parts.recompute;
  parts.imbalance = slowest - busy;
  schedule::Costs costs = layout_costs(scorer.sums(), scorer.machine(), order, layout);
  costs.links = {{0, 0}};
  costs.traffic_slowdown = 0;
  const double without = std::min(measures.makespan, scorer.forecast().time(costs).makespan);
  parts.schedule = std::max(0.0, without - slowest);
  parts.transfer = measures.makespan - slowest - parts.schedule;
  parts.tail = measures.step_time - measures.makespan;
  return parts;
}

std::vector<StagePlan> stage_plans(const LayoutScorer& scorer, const Layout& layout) {
  const UnitSums& sums = scorer.sums();
  const schedule::Schedule& order = scorer.schedule();
  const schedule::Costs costs = layout_costs(sums, scorer.machine(), order, layout);
  const std::vector<SlotCounts> slots = slot_counts(order);
  std::vector<StagePlan> plans;
  int begin = 0;
  for (int stage = 0; stage < order.stages(); ++stage) {
    const auto s = static_cast<size_t>(stage);
    const auto block = static_cast<size_t>(order.block_of(stage));
    if (block == 0) begin = 0;
    const int end = begin + layout.units[block];
    StagePlan plan;
    plan.stage = stage;
    plan.rank = order.rank_of_stage[s];
    plan.first_unit = begin;
    plan.units = layout.units[block];
    plan.recompute = layout.recompute[block];
    plan.times = costs.blocks[s];
    plan.recompute_time = sums.recompute(begin, end, plan.recompute) * scorer.machine().pace_of(plan.rank);
    plan.slots = slots[s];
    plan.resident_bytes = sums.resident_bytes(begin, end);
    const auto held = [&](Recompute mode) {
      const RunBytes bytes = sums.bytes(begin, end, mode);
      return slots[s].forward * bytes.forward + slots[s].kept * bytes.kept + slots[s].weight * bytes.weight;
    };
    plan.slot_bytes = held(plan.recompute);
    plan.full_saves = held(Recompute::none) - held(Recompute::full);
    plans.push_back(plan);
    begin = end;
  }
  return plans;
}

}  // namespace penstock::planner
