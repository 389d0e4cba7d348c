#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

#include "parallel/schedule/action.h"
#include "trainer/accounting/rank_times.h"

namespace penstock::accounting {

/// When each rank was held up by itself in a step, by its own record:
///   it stood still    its process was not running at all (stopped, starved of processors, swapped out)
///   a slow action     took over `slow` times as long as the others of its kind on its stage; from when it
///                     should have ended
///   its host          had not enqueued an action whose inputs were there
/// What is on its way to or from a rank that stands still does not move, and a rank that nobody can see
/// working can still be seen to have stopped: that tells a stopped peer from a slow link.
class HoldUps {
 public:
  static constexpr double slow = 3;

  HoldUps(size_t ranks, size_t stages) : ranks_(ranks), kinds_(stages * kinds_per_stage) {}

  /// A new step; after that every action of every rank is counted once, and looked at once. Allocates only
  /// until its lists have grown.
  void clear(std::span<const RankTimes> ranks);
  void count(schedule::Op op, int stage, double seconds);
  void look_at(int rank, schedule::Op op, int stage, double begin, double end);
  /// Its host was late.
  void add(int rank, double begin, double end);

  /// Cuts [from, to) where one of `ranks` begins or ends to stand still: visit(begin, end, who), in order of
  /// time; who: the first in the list that stands still, −1 nobody.
  template <class Visit>
  void cut(std::initializer_list<int> ranks, double from, double to, Visit visit) const {
    cut(std::span<const int>(ranks.begin(), ranks.size()), from, to, visit);
  }
  template <class Visit>
  void cut(std::span<const int> ranks, double from, double to, Visit visit) const {
    while (from < to) {
      double until = to;
      int who = -1;
      for (const int rank : ranks) {
        for (const Interval& each : ranks_[static_cast<size_t>(rank)].still) {
          if (each.begin > from) {
            until = each.begin < until ? each.begin : until;
          } else if (each.end > from) {
            until = each.end < until ? each.end : until;
            if (who < 0) who = rank;
          }
        }
      }
      visit(from, until, who);
      from = until;
    }
  }
  /// Seconds of [from, to) in which the rank was held up.
  double seconds(size_t rank, double from, double to) const;

 private:
  static constexpr size_t kinds_per_stage = 4;

  struct Rank {
    std::vector<Interval> still;
    std::vector<Interval> slow;  ///< and late
  };
  struct Kind {
    double seconds = 0;
    int count = 0;
  };
  Kind& kind(schedule::Op op, int stage) {
    return kinds_[static_cast<size_t>(stage) * kinds_per_stage + static_cast<size_t>(op)];
  }

  std::vector<Rank> ranks_;
  std::vector<Kind> kinds_;  ///< by stage and operation
};

}  // namespace penstock::accounting
