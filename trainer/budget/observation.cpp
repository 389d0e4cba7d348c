#include "trainer/budget/observation.h"

#include <algorithm>

namespace penstock::budget {

using accounting::Culprit;
using accounting::Part;
using planner::MeasuredRun;

void add_culprit(std::vector<Culprit>& all, const Culprit& culprit) {
  const auto same = std::find_if(all.begin(), all.end(), [&](const Culprit& each) {
    return each.rank == culprit.rank && each.to == culprit.to;
  });
  if (same == all.end()) {
    all.push_back(culprit);
  } else {
    same->seconds += culprit.seconds;
  }
}

namespace {

MeasuredRun run_of(const accounting::PartSeconds& parts, int micro_batches) {
  MeasuredRun run;
  run.micro_batches = micro_batches;
  run.forward = parts[Part::forward];
  run.backward_input = parts[Part::backward_input];
  run.backward_weight = parts[Part::backward_weight];
  run.recompute = parts[Part::recompute];
  return run;
}

double busy(const MeasuredRun& run) {
  return run.forward + run.backward_input + run.backward_weight + run.recompute.value_or(0);
}

}  // namespace

StepObservation observe(int64_t step, std::span<const accounting::StepAccount> replicas,
                        const accounting::StepFigures& figures, const SimulatedArrangement& running) {
  StepObservation made;
  made.step = step;
  made.bubble_ratio = figures.bubble_ratio;
  made.stage_imbalance = figures.stage_imbalance;
  made.drain = figures.drain;
  made.slowest_rank = figures.slowest_rank;
  made.slowest_stage = figures.slowest_stage;
  const size_t ranks = replicas.front().ranks.size();
  const auto accounts = static_cast<double>(ranks * replicas.size());
  made.runs.resize(ranks);
  for (const accounting::StepAccount& account : replicas) {
    double pauses = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const accounting::PartSeconds& parts = account.ranks[rank].parts;
      for (size_t part = 0; part < accounting::part_count; ++part)
        made.parts[static_cast<Part>(part)] += parts[static_cast<Part>(part)] / accounts;
      pauses += parts.pauses() / static_cast<double>(ranks);
      for (const Culprit& root : account.ranks[rank].roots) add_culprit(made.roots, root);
      const MeasuredRun run = run_of(parts, running.schedule().micro_batches);
      if (busy(run) >= busy(made.runs[rank])) made.runs[rank] = run;
    }
    made.seconds = std::max(made.seconds, account.seconds() - pauses);
  }
  const planner::Layout& layout = running.arrangement().layout;
  int unit = 0;
  for (size_t stage = 0; stage < layout.units.size(); ++stage) {
    for (int i = 0; i < layout.units[stage]; ++i, ++unit)
      made.runs[static_cast<size_t>(running.rank_of_unit(unit))].members.push_back(
          {unit, layout.recompute[stage]});
  }
  made.paused = made.parts.pauses() > 0;
  return made;
}

}  // namespace penstock::budget
