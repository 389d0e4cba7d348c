// What a step's parts cost. Any one unit of time.
#pragma once

#include <vector>

#include "parallel/schedule/schedule.h"

namespace penstock::schedule {

// Of one stage and micro-batch. B costs backward_input + backward_weight.
struct StageCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
};

// A message occupies its directed edge for `occupancy` (bytes / bandwidth) and arrives `latency` later; the
// next one on the same edge may follow when the edge is free.
struct Link {
  double latency = 0;
  double occupancy = 0;
};

struct Costs {
  // (S) of the blocks of the model, or of all stages where the copies of a block run on ranks that differ.
  std::vector<StageCosts> blocks;
  // One for all edges, or (P · P): links[source · P + destination].
  std::vector<Link> links{{}};
  // Of a stage: gradient reduction over replicas and copies, and parameter gather. One for all, or (S). A
  // partial reduction (one half of a stage's gradients) costs half of one.
  std::vector<double> gradient_reduction{0};
  std::vector<double> parameter_gather{0};
  // Tied sum; and a rank's optimizer step.
  double tied_sum = 0;
  double optimizer_step = 0;
  // Compute takes (1 + traffic_slowdown) times as long while a transfer or reduction of its rank is under
  // way.
  double traffic_slowdown = 0;

  double of(const Action& action) const;
  const StageCosts& of_stage(int stage) const { return blocks[static_cast<size_t>(stage) % blocks.size()]; }
  // Of `each_stage`, one of the members that hold one value for all stages, or (S).
  static double of_block(const std::vector<double>& each_stage, int block) {
    return each_stage.size() == 1 ? each_stage[0] : each_stage[static_cast<size_t>(block)];
  }
  const Link& link(int source, int destination, int ranks) const {
    return links.size() == 1 ? links[0]
                             : links[static_cast<size_t>(source) * static_cast<size_t>(ranks) +
                                     static_cast<size_t>(destination)];
  }
};

// Costs of a rank and micro-batch, spread evenly over the rank's v chunks; `transfer` is latency.
Costs uniform_costs(int ranks, int chunks, const StageCosts& rank, double transfer = 0);

// Throws ScheduleError where the sizes do not fit the schedule, or a cost is negative or not a finite number.
void require_fitting(const Costs& costs, const Schedule& schedule);

}  // namespace penstock::schedule
