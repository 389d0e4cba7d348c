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
  // `here` stands on every rank's list, for the rank's own first stage.
  bool everywhere = false;
  double cost = 0;
  // Actions (StepGraph's numbers) and collectives (indices, all smaller than its own) it waits for.
  std::vector<int> after_actions;
  std::vector<size_t> after;
  // Actions of `rank` that wait for it: they accumulate in the gradients that it has read and cleared.
  std::vector<int> before_actions;
  // An action that it needs nothing of, but is lowered behind; −1: none.
  int put_behind = -1;
};

// Per stage and step: reduction over the replicas, or per block over its two copies and the replicas, tied
// sum; per rank the optimizer step; per stage the gather. Of an asynchronous schedule all ranks agree behind
// the sums, and a rank's optimizer step stands right before the first forward that reads its weights: that of
// the step after the next. With reduce_every, sums of parts of the step before the reduction: of every window
// of so many micro-batches of a stage but the last, one when their I are done, and one when their W are. Two
// windows have memory at once, so that a window's first I (W) waits for the I (W) sum of the window before
// the last. In an order in which everything stands behind what it waits for.
std::vector<Collective> plan_collectives(const Schedule& schedule, const StepGraph& graph, const Costs& costs,
                                         const LoweringOptions& options);

// (stages · steps): the last weight-gradient action of a stage in each step; −1 if it has none.
std::vector<int> last_weight_gradients(const Schedule& schedule, const StepGraph& graph);

}  // namespace penstock::schedule
