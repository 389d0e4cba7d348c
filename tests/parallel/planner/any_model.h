// Random models, machines and schedules, small enough to try every layout.
#pragma once

#include <algorithm>
#include <random>
#include <string>

#include "parallel/planner/machine.h"
#include "parallel/planner/unit_costs.h"
#include "parallel/schedule/catalogue.h"

namespace penstock::planner {

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool coin() { return between(0, 1) == 1; }
  // Sixty-fourths, so that sums are exact in any order.
  double cost(int most) { return between(0, 64 * most) / 64.0; }

 private:
  std::mt19937 random_;
};

// Modes differ in all that a measurement may find different, or, `clean`, in what recomputation is about.
inline ModelCosts any_model(Dice& dice, int units, bool clean) {
  ModelCosts model;
  model.boundary_bytes = 16;
  model.rank_bytes = dice.between(0, 50);
  model.tokens = 100;
  model.tied_embeddings = dice.coin();
  model.tied_exchange_bytes = 20;
  model.tied_shared_bytes = 10;
  for (int i = 0; i < units; ++i) {
    UnitCosts unit;
    unit.name = std::to_string(i);
    unit.parameters = dice.between(0, 100);
    unit.flops = dice.between(0, 100);
    unit.layers = dice.between(0, 1);
    unit.resident_bytes = dice.between(10, 100);
    unit.gradient_bytes = dice.between(1, 30);
    unit.workspace_bytes = dice.between(0, 20);
    unit.side_band_bytes = dice.between(0, 3);
    unit.optimizer_step = dice.cost(1);
    ModeCosts base;
    base.forward = dice.cost(4);
    base.backward_input = dice.cost(4);
    base.backward_weight = dice.cost(4);
    for (size_t m = 0; m < recompute_modes; ++m) {
      ModeCosts& mode = unit.modes[m] = base;
      if (!clean) mode.forward = dice.cost(4);
      if (!clean) mode.backward_weight = dice.cost(4);
      mode.recompute = m == 0 ? 0 : dice.cost(2);
      const int saved = static_cast<int>(m);
      mode.forward_bytes = dice.between(1, 20 - 6 * saved);
      mode.kept_bytes = dice.between(0, 12 - 6 * saved);
      mode.weight_bytes = dice.between(1, 10 + 5 * saved);
      mode.transient_bytes = dice.between(0, 10 * (saved + 1));
    }
    model.units.push_back(unit);
  }
  return model;
}

inline Machine any_machine(Dice& dice, int ranks) {
  Machine machine;
  machine.ranks = ranks;
  machine.replicas = dice.between(1, 2);
  machine.links.edges = {{dice.cost(1), std::numeric_limits<double>::infinity()}};
  machine.links.reduction = {dice.cost(1), 64};
  if (dice.coin()) {
    machine.pace.clear();
    for (int rank = 0; rank < ranks; ++rank) machine.pace.push_back(1 + dice.between(0, 8) / 8.0);
  }
  return machine;
}

// Of at most `stages` blocks; with `copies`, two copies of the weights too.
inline schedule::Schedule any_schedule(Dice& dice, int ranks, int stages, bool copies = false) {
  while (true) {
    const auto& kinds = schedule::schedule_kinds();
    const schedule::ScheduleKind& kind =
        kinds[static_cast<size_t>(dice.between(0, static_cast<int>(kinds.size()) - 1))];
    schedule::ScheduleOptions options;
    options.ranks = ranks;
    options.micro_batches = dice.between(1, 6);
    options.chunks = dice.between(kind.min_chunks, std::min(kind.max_chunks, 2));
    if (kind.name == std::string("1f1b")) options.warmup_slack = dice.between(0, 2);
    if ((kind.copies > 1 && !copies) || kind.versions > 1 || ranks * options.chunks > stages) continue;
    if (kind.refusal(options).empty()) return schedule::generate(kind.name, options);
  }
}

}  // namespace penstock::planner
