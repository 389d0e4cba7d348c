// What follows the weight gradients in a step: sums, reductions, the optimizer and gathers, and what each
// waits for.
#pragma once

#include <optional>
#include <vector>

#include "parallel/schedule/program.h"
#include "parallel/schedule/step_graph.h"

namespace penstock::schedule {

struct Collective {
  // The instruction on `rank`, and that on the peer's list where it involves a second pipeline rank.
  int rank = 0;
  Instruction here;
  std::optional<Instruction> there;
  double cost = 0;
  // Actions (StepGraph's numbers) and collectives (indices, all smaller than its own) it waits for.
  std::vector<int> after_actions;
  std::vector<size_t> after;
};

// Per stage and step: sum over the copies, reduction over the replicas, tied sum; per rank the optimizer
// step; per stage the gather. In an order in which everything stands behind what it waits for.
std::vector<Collective> plan_collectives(const Schedule& schedule, const StepGraph& graph, const Costs& costs,
                                         const LoweringOptions& options);

// (stages · steps): the last weight-gradient action of a stage in each step; −1 if it has none.
std::vector<int> last_weight_gradients(const Schedule& schedule, const StepGraph& graph);

}  // namespace penstock::schedule
