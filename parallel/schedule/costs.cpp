#include "parallel/schedule/costs.h"

#include <cmath>

#include <fmt/format.h>

namespace penstock::schedule {

namespace {

void require_cost(double value, const std::string& what) {
  // Above this a step's sums would lose the small costs.
  if (std::isfinite(value) && value >= 0 && value <= 1e12) return;
  throw ScheduleError(fmt::format("the cost of {} is {}; it must be a number from 0 to 1e12", what, value));
}

}  // namespace

double Costs::of(const Action& action) const {
  const StageCosts& block = of_stage(action.stage);
  switch (action.op) {
    case Op::forward:
      return block.forward;
    case Op::backward_input:
      return block.backward_input;
    case Op::backward_weight:
      return block.backward_weight;
    case Op::backward:
      return block.backward_input + block.backward_weight;
  }
  return 0;
}

Costs uniform_costs(int ranks, int chunks, const StageCosts& rank, double transfer) {
  Costs costs;
  costs.blocks.assign(static_cast<size_t>(ranks) * static_cast<size_t>(chunks),
                      {rank.forward / chunks, rank.backward_input / chunks, rank.backward_weight / chunks});
  costs.links = {{transfer, 0}};
  return costs;
}

void require_fitting(const Costs& costs, const Schedule& schedule) {
  const auto S = static_cast<size_t>(schedule.blocks());
  if (costs.blocks.size() != S && costs.blocks.size() != static_cast<size_t>(schedule.stages())) {
    throw ScheduleError(fmt::format("costs of {} stages for a schedule of {}", costs.blocks.size(), S));
  }
  const auto edges = static_cast<size_t>(schedule.ranks) * static_cast<size_t>(schedule.ranks);
  if (costs.links.size() != 1 && costs.links.size() != edges) {
    throw ScheduleError(fmt::format("{} links for {} ranks: give one for all, or P * P = {}",
                                    costs.links.size(), schedule.ranks, edges));
  }
  for (size_t stage = 0; stage < costs.blocks.size(); ++stage) {
    require_cost(costs.blocks[stage].forward, fmt::format("F of stage {}", stage));
    require_cost(costs.blocks[stage].backward_input, fmt::format("I of stage {}", stage));
    require_cost(costs.blocks[stage].backward_weight, fmt::format("W of stage {}", stage));
  }
  for (const Link& link : costs.links) {
    require_cost(link.latency, "a transfer (latency)");
    require_cost(link.occupancy, "a transfer (occupancy)");
  }
  for (const auto& each_stage : {costs.gradient_reduction, costs.parameter_gather}) {
    if (each_stage.size() != 1 && each_stage.size() != S) {
      throw ScheduleError(fmt::format("{} reductions or gathers for {} stages: give one for all, or one each",
                                      each_stage.size(), S));
    }
    for (const double cost : each_stage) require_cost(cost, "a gradient reduction or parameter gather");
  }
  require_cost(costs.tied_sum, "a tied sum");
  require_cost(costs.optimizer_step, "an optimizer step");
  require_cost(costs.traffic_slowdown, "traffic (slow-down)");
}

}  // namespace penstock::schedule
