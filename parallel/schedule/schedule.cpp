#include "parallel/schedule/schedule.h"

#include <algorithm>

namespace penstock::schedule {

std::vector<std::vector<int>> Schedule::stages_by_rank() const {
  std::vector<std::vector<int>> owned(static_cast<size_t>(ranks));
  for (int stage = 0; stage < stages(); ++stage) {
    owned[static_cast<size_t>(rank_of_stage[static_cast<size_t>(stage)])].push_back(stage);
  }
  return owned;
}

double peak_slots(const Schedule& schedule, int rank) {
  int held = 0;
  int peak = 0;
  for (const Action& action : schedule.actions[static_cast<size_t>(rank)]) {
    if (action.op == Op::forward) peak = std::max(peak, ++held);
    if (gives_weight_gradient(action.op)) --held;
  }
  return static_cast<double>(peak) / schedule.chunks;
}

}  // namespace penstock::schedule
