// Four ranks, equal units, a few micro-batches: what a controller is told and what is true.
#pragma once

#include <string>

#include "tests/trainer/budget/replayed_run.h"

namespace penstock::budget {

constexpr int small_ranks = 4;

/// `sizes`: micro-batch sizes that are known, of 16, 8, … micro-batches.
inline Truth small_truth(int sizes = 1) {
  Truth truth;
  truth.machine.ranks = small_ranks;
  truth.machine.pace.assign(small_ranks, 1);
  for (int size = 0; size < sizes; ++size) {
    const double sequences = 1 << size;
    planner::Workload workload;
    workload.micro_batches = 16 >> size;
    workload.model.micro_batch = 1 << size;
    workload.model.tokens = (int64_t{1} << size) * 128;
    for (int unit = 0; unit < 24; ++unit) {
      planner::UnitCosts& made = workload.model.units.emplace_back();
      made.name = "unit_" + std::to_string(unit);
      made.parameters = made.flops = made.layers = 1;
      made.optimizer_step = 1e-5;
      made.resident_bytes = 100;
      for (planner::ModeCosts& mode : made.modes) {
        const auto index = static_cast<double>(&mode - made.modes.data());
        mode = {
            1e-3 * sequences, 0.3e-3 * index * sequences, 1e-3 * sequences, 1e-3 * sequences, 10, 20, 30, 0};
        mode.kept_bytes = 20 - 10 * static_cast<int64_t>(index);
      }
    }
    truth.workloads.push_back(std::move(workload));
  }
  return truth;
}

inline ControllerOptions small_options(const Truth& truth, std::vector<BudgetAction> actions) {
  ControllerOptions made;
  made.budget.bubble_ratio = 1e-6;
  made.budget.actions = std::move(actions);
  made.machine = truth.machine;
  made.workloads = truth.workloads;
  made.first.layout.units.assign(small_ranks, 6);
  made.first.layout.recompute.assign(small_ranks, planner::Recompute::none);
  made.search = {1e6, 1e3};
  return made;
}

}  // namespace penstock::budget
