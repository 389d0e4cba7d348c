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

StepObservation observe(int64_t step, const accounting::StepAccount& account,
                        const accounting::StepFigures& figures, const SimulatedArrangement& running) {
  StepObservation made;
  made.step = step;
  made.bubble_ratio = figures.bubble_ratio;
  made.stage_imbalance = figures.stage_imbalance;
  made.drain = figures.drain;
  made.slowest_rank = figures.slowest_rank;
  made.slowest_stage = figures.slowest_stage;
  const auto ranks = static_cast<double>(account.ranks.size());
  made.runs.resize(account.ranks.size());
  for (size_t rank = 0; rank < account.ranks.size(); ++rank) {
    const accounting::PartSeconds& parts = account.ranks[rank].parts;
    for (size_t part = 0; part < accounting::part_count; ++part)
      made.parts[static_cast<Part>(part)] += parts[static_cast<Part>(part)] / ranks;
    for (const Culprit& root : account.ranks[rank].roots) add_culprit(made.roots, root);
    MeasuredRun& run = made.runs[rank];
    run.micro_batches = running.schedule().micro_batches;
    run.forward = parts[Part::forward];
    run.backward_input = parts[Part::backward_input];
    run.backward_weight = parts[Part::backward_weight];
    run.recompute = parts[Part::recompute];
  }
  const planner::Layout& layout = running.arrangement().layout;
  int unit = 0;
  for (size_t stage = 0; stage < layout.units.size(); ++stage) {
    for (int i = 0; i < layout.units[stage]; ++i, ++unit)
      made.runs[static_cast<size_t>(running.rank_of_unit(unit))].members.push_back(
          {unit, layout.recompute[stage]});
  }
  made.seconds = account.seconds() - made.parts.pauses();
  made.paused = made.parts.pauses() > 0;
  return made;
}

}  // namespace penstock::budget
