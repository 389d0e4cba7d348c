#include "parallel/schedule/schedule.h"

#include <algorithm>

#include <fmt/format.h>

namespace penstock::schedule {

std::vector<std::vector<int>> Schedule::stages_by_rank() const {
  std::vector<std::vector<int>> owned(static_cast<size_t>(ranks));
  for (int stage = 0; stage < stages(); ++stage) {
    owned[static_cast<size_t>(rank_of_stage[static_cast<size_t>(stage)])].push_back(stage);
  }
  return owned;
}

std::string copies_refusal(const Schedule& schedule) {
  if (schedule.copies == 1) return "";
  if (schedule.ranks % 2 != 0) {
    return fmt::format(
        "two copies of the weights on {} pipeline ranks: the middle one would hold a stage twice; take an "
        "even "
        "number",
        schedule.ranks);
  }
  for (int block = 0; block < schedule.blocks(); ++block) {
    const int first = schedule.rank_of_stage[static_cast<size_t>(block)];
    const int second = schedule.rank_of_stage[static_cast<size_t>(block + schedule.blocks())];
    if (second == schedule.ranks - 1 - first) continue;
    return fmt::format(
        "two copies of the weights: stage {} is on rank {}, so that its copy, stage {}, belongs on "
        "rank {}; it is on rank {}",
        block, first, block + schedule.blocks(), schedule.ranks - 1 - first, second);
  }
  return "";
}

int tied_head(const Schedule& schedule, int copy) {
  const int S = schedule.blocks();
  const auto owner = [&](int stage) { return schedule.rank_of_stage[static_cast<size_t>(stage)]; };
  const int rank = owner(copy * S);
  const int own = copy * S + S - 1;
  if (schedule.copies == 1 || owner(own) == rank) return own;
  const int other = (1 - copy) * S + S - 1;
  return owner(other) == rank ? other : own;
}

std::vector<std::pair<int, int>> tied_exchanges(const Schedule& schedule) {
  std::vector<std::pair<int, int>> pairs;
  for (int copy = 0; copy < schedule.copies; ++copy) {
    const int first = schedule.rank_of_stage[static_cast<size_t>(copy * schedule.blocks())];
    const int last = schedule.rank_of_stage[static_cast<size_t>(tied_head(schedule, copy))];
    if (first != last) pairs.emplace_back(first, last);
  }
  return pairs;
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
