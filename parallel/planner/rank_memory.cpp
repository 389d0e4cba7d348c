#include "parallel/planner/rank_memory.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace penstock::planner {

using schedule::Action;
using schedule::BufferPool;
using schedule::Op;
using schedule::Schedule;

std::vector<SlotCounts> slot_counts(const Schedule& schedule) {
  std::vector<SlotCounts> most(static_cast<size_t>(schedule.stages()));
  std::vector<SlotCounts> held(most.size(), {0, 0, 0});
  for (const auto& list : schedule.actions) {
    for (const Action& action : list) {
      SlotCounts& now = held[static_cast<size_t>(action.stage)];
      SlotCounts& peak = most[static_cast<size_t>(action.stage)];
      if (action.op == Op::forward) {
        peak.forward = std::max(peak.forward, ++now.forward);
        peak.kept = std::max(peak.kept, ++now.kept);
      }
      if (gives_input_gradient(action.op)) {
        peak.weight = std::max(peak.weight, ++now.weight);
        --now.forward;
      }
      if (gives_weight_gradient(action.op)) {
        --now.kept;
        --now.weight;
      }
    }
  }
  return most;
}

RankMemory rank_memory(const UnitSums& sums, const Schedule& schedule, const Layout& layout,
                       const std::vector<SlotCounts>& slots, const BoundaryBuffers& buffers, int rank) {
  const ModelCosts& model = sums.model();
  RankMemory memory;
  int64_t transient = 0;
  int64_t workspace = 0;
  bool first = false;
  bool last = false;
  int begin = 0;
  int count = 0;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const auto s = static_cast<size_t>(stage);
    const auto block = static_cast<size_t>(schedule.block_of(stage));
    if (block == 0) begin = 0;
    const int end = begin + layout.units[block];
    if (schedule.rank_of_stage[s] == rank) {
      const RunBytes bytes = sums.bytes(begin, end, layout.recompute[block]);
      memory.resident += sums.resident_bytes(begin, end);
      memory.forward += slots[s].forward * bytes.forward;
      memory.kept += slots[s].kept * bytes.kept;
      memory.weight += slots[s].weight * bytes.weight;
      transient = std::max(transient, bytes.transient);
      workspace = std::max(workspace, sums.workspace_bytes(begin, end));
      first = first || schedule.is_first(stage);
      last = last || schedule.is_last(stage);
      ++count;
    }
    begin = end;
  }
  const auto held = [&](BufferPool pool, bool used) {
    return std::max(used ? 1 : 0, buffers[static_cast<size_t>(pool)]);
  };
  // Only the last stage hands on nothing, and only the first hands nothing back.
  const int all = held(BufferPool::activation_in, false) + held(BufferPool::gradient_in, false) +
                  held(BufferPool::activation_out, count > (last ? 1 : 0)) +
                  held(BufferPool::gradient_out, count > (first ? 1 : 0));
  memory.buffers = all * model.boundary_bytes;
  if (model.tied_embeddings && first != last) memory.buffers += model.tied_exchange_bytes;
  if (model.tied_embeddings && first && last) memory.resident -= model.tied_shared_bytes;
  memory.workspace = transient + workspace;
  memory.other = model.rank_bytes;
  return memory;
}

double reduction_time(const UnitSums& sums, const Machine& machine, const Schedule& schedule, int begin,
                      int end, int rank) {
  const auto bytes = static_cast<double>(sums.gradient_bytes(begin, end));
  const auto over = [bytes](const Edge& edge) { return edge.latency + bytes / edge.bandwidth; };
  double time = machine.replicas > 1 ? over(machine.links.reduction) : 0;
  // Two copies send each other half of their gradients, then half of the sums.
  if (schedule.copies > 1) {
    Edge edge = machine.edge(rank, schedule.ranks - 1 - rank);
    edge.latency *= 2;
    time = std::max(time, over(edge));
  }
  return time;
}

schedule::Costs layout_costs(const UnitSums& sums, const Machine& machine, const Schedule& schedule,
                             const Layout& layout) {
  const auto bytes = static_cast<double>(sums.model().boundary_bytes);
  schedule::Costs costs;
  costs.links.clear();
  for (const Edge& edge : machine.links.edges) costs.links.push_back({edge.latency, bytes / edge.bandwidth});
  costs.gradient_reduction.clear();
  std::vector<double> optimizer(static_cast<size_t>(machine.ranks), 0);
  int begin = 0;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const int rank = schedule.rank_of_stage[static_cast<size_t>(stage)];
    const auto block = static_cast<size_t>(schedule.block_of(stage));
    if (block == 0) begin = 0;
    const int end = begin + layout.units[block];
    const double pace = machine.pace_of(rank);
    schedule::StageCosts times = sums.times(begin, end, layout.recompute[block]);
    times.forward *= pace;
    times.backward_input *= pace;
    times.backward_weight *= pace;
    costs.blocks.push_back(times);
    optimizer[static_cast<size_t>(rank)] += sums.optimizer_step(begin, end) * pace;
    if (stage < schedule.blocks())
      costs.gradient_reduction.push_back(reduction_time(sums, machine, schedule, begin, end, rank));
    begin = end;
  }
  costs.optimizer_step = *std::max_element(optimizer.begin(), optimizer.end());
  const auto exchanges = tied_exchanges(schedule);
  if (sums.model().tied_embeddings && !exchanges.empty()) {
    const Edge& edge = machine.edge(exchanges.front().first, exchanges.front().second);
    costs.tied_sum = edge.latency + static_cast<double>(sums.model().tied_exchange_bytes) / edge.bandwidth;
  }
  costs.traffic_slowdown = machine.links.traffic_slowdown;
  return costs;
}

}  // namespace penstock::planner
