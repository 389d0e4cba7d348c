#include "tests/trainer/budget/drawn_pipeline.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace penstock::budget {

using accounting::Part;
using schedule::Action;
using schedule::Op;

DrawnPipeline::DrawnPipeline(const Arrangement& arrangement, const Truth& truth)
    : simulated_(arrangement, truth.machine, truth.workloads[arrangement.workload].micro_batches,
                 truth.workloads[arrangement.workload].model.tied_embeddings) {
  const planner::UnitSums sums(truth.workloads[arrangement.workload].model);
  const schedule::Schedule& order = simulated_.schedule();
  const schedule::Costs costs = planner::layout_costs(sums, truth.machine, order, arrangement.layout);
  for (const schedule::Link& link : costs.links) {
    if (link.latency > 0 || link.occupancy > 0) throw std::logic_error("messages that take time");
  }
  schedule::LoweringOptions lowering;
  lowering.reduce_gradients = false;
  lowering.receive_lead = 4;
  program_ = lower(order, costs, lowering);
  times_.emplace(program_, costs, truth.disturbances, truth.noise);
  order_actions();
}

void DrawnPipeline::order_actions() {
  const schedule::Schedule& order = simulated_.schedule();
  const auto micro_batches = static_cast<size_t>(order.micro_batches);
  std::vector<int> forwards(static_cast<size_t>(order.stages()) * micro_batches, -1);
  std::vector<int> gradients(forwards.size(), -1);
  const auto cell = [&](int stage, int micro_batch) {
    return static_cast<size_t>(stage) * micro_batches + static_cast<size_t>(micro_batch);
  };
  std::vector<size_t> next(static_cast<size_t>(order.ranks), 0);
  for (bool any = true; any;) {
    any = false;
    for (int rank = 0; rank < order.ranks; ++rank) {
      const std::vector<Action>& list = order.actions[static_cast<size_t>(rank)];
      for (size_t& at = next[static_cast<size_t>(rank)]; at < list.size(); ++at, any = true) {
        const Action& action = list[at];
        Node node{action, rank, -1};
        if (action.op == Op::forward && action.stage > 0) {
          node.producer = forwards[cell(action.stage - 1, action.micro_batch)];
          if (node.producer < 0) break;
        }
        if (gives_input_gradient(action.op) && action.stage + 1 < order.stages()) {
          node.producer = gradients[cell(action.stage + 1, action.micro_batch)];
          if (node.producer < 0) break;
        }
        const int made = static_cast<int>(nodes_.size());
        nodes_.push_back(node);
        if (action.op == Op::forward) forwards[cell(action.stage, action.micro_batch)] = made;
        if (gives_input_gradient(action.op)) gradients[cell(action.stage, action.micro_batch)] = made;
      }
    }
  }
  ends_.resize(nodes_.size());
  begins_.assign(static_cast<size_t>(order.ranks), 0);
}

StepObservation DrawnPipeline::draw(int64_t number) {
  const auto step = static_cast<uint64_t>(number);
  const schedule::Schedule& order = simulated_.schedule();
  const auto P = static_cast<size_t>(order.ranks);
  std::vector<double> pace(P);
  for (size_t rank = 0; rank < P; ++rank) pace[rank] = times_->rank_factor(step, static_cast<int>(rank));
  StepObservation made;
  made.step = number;
  made.runs.resize(static_cast<size_t>(order.stages()));
  std::vector<double> free = begins_;
  std::vector<double> first(P, std::numeric_limits<double>::infinity());
  std::vector<double> busy(P, 0);
  const auto drawn = [&](const Node& node, Op op) {
    return pace[static_cast<size_t>(node.rank)] *
           times_->action(step, node.action.stage, op, node.action.micro_batch);
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const auto rank = static_cast<size_t>(node.rank);
    planner::MeasuredRun& run = made.runs[static_cast<size_t>(node.action.stage)];
    double seconds = 0;
    if (node.action.op == Op::forward) run.forward += seconds = drawn(node, Op::forward);
    if (gives_input_gradient(node.action.op)) {
      const double input = drawn(node, Op::backward_input);
      run.backward_input += input;
      seconds += input;
    }
    if (gives_weight_gradient(node.action.op)) {
      const double weight = drawn(node, Op::backward_weight);
      run.backward_weight += weight;
      seconds += weight;
    }
    const double start =
        node.producer < 0 ? free[rank] : std::max(free[rank], ends_[static_cast<size_t>(node.producer)]);
    first[rank] = std::min(first[rank], start);
    busy[rank] += seconds;
    free[rank] = ends_[i] = start + seconds;
  }
  const planner::Layout& layout = simulated_.arrangement().layout;
  int unit = 0;
  for (size_t stage = 0; stage < layout.units.size(); ++stage) {
    made.runs[stage].micro_batches = order.micro_batches;
    for (int i = 0; i < layout.units[stage]; ++i)
      made.runs[stage].members.push_back({unit++, layout.recompute[stage]});
  }
  const double makespan = *std::max_element(free.begin(), free.end());
  made.drain = makespan - *std::min_element(free.begin(), free.end());
  double mean = 0;
  for (size_t rank = 0; rank < P; ++rank) {
    const double share = 1 / static_cast<double>(P);
    mean += busy[rank] * share;
    made.parts[Part::fill] += first[rank] * share;
    made.parts[Part::drain] += (makespan - free[rank]) * share;
    made.parts[Part::wait_forward] += (free[rank] - first[rank] - busy[rank]) * share;
  }
  // All agree on the gradients; then each has its own optimizer step, and begins when that is done.
  double end = 0;
  for (size_t rank = 0; rank < P; ++rank) {
    begins_[rank] = makespan + pace[rank] * times_->costs().optimizer_step;
    end = std::max(end, begins_[rank]);
  }
  for (double& begin : begins_) begin -= end;
  made.seconds = end;
  made.bubble_ratio = (makespan - mean) / made.seconds;
  const auto slowest = std::max_element(busy.begin(), busy.end());
  made.slowest_rank = static_cast<int>(slowest - busy.begin());
  made.slowest_stage = order.stages_by_rank()[static_cast<size_t>(made.slowest_rank)].front();
  made.stage_imbalance = *slowest / mean - 1;
  return made;
}

}  // namespace penstock::budget
