#include "trainer/accounting/hold_ups.h"

#include <algorithm>

namespace penstock::accounting {

void HoldUps::clear(std::span<const RankTimes> ranks) {
  std::fill(kinds_.begin(), kinds_.end(), Kind{});
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].still.clear();
    ranks_[rank].slow.clear();
    for (const Interval& each : ranks[rank].standstills) {
      if (each.end > each.begin) ranks_[rank].still.push_back(each);
    }
  }
}

void HoldUps::count(schedule::Op op, int stage, double seconds) {
  kind(op, stage).seconds += seconds;
  ++kind(op, stage).count;
}

// Against the mean of the others, so that one slow action of two is seen as well.
void HoldUps::look_at(int rank, schedule::Op op, int stage, double begin, double end) {
  const Kind& all = kind(op, stage);
  if (all.count < 2) return;
  const double seconds = end - begin;
  const double others = (all.seconds - seconds) / (all.count - 1);
  if (seconds > slow * others) add(rank, begin + others, end);
}

void HoldUps::add(int rank, double begin, double end) {
  if (end > begin) ranks_[static_cast<size_t>(rank)].slow.push_back({begin, end});
}

double HoldUps::seconds(size_t rank, double from, double to) const {
  double held = 0;
  const auto inside = [&](const Interval& each) {
    return std::max(0.0, std::min(each.end, to) - std::max(each.begin, from));
  };
  for (const Interval& each : ranks_[rank].still) held += inside(each);
  // An action that stood still for a while is one thing.
  for (const Interval& action : ranks_[rank].slow) {
    held += inside(action);
    for (const Interval& each : ranks_[rank].still) {
      held -= inside({std::max(each.begin, action.begin), std::min(each.end, action.end)});
    }
  }
  return std::min(held, to - from);
}

}  // namespace penstock::accounting
