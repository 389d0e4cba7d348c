#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "trainer/accounting/step_account.h"

namespace penstock::accounting {

/// Follows waits to who was behind them: a rank that waits for a peer, which came late because it had waited
/// for another itself, and so on, until a rank that computed for longer than those that waited for it (or was
/// late by itself), or a message that was on its way.
///
/// A rank that waits for d seconds computed until then since its own last wait; what did the peer do since
/// that moment? If it never waited, it worked d seconds longer, and is the root. If it waited for y seconds,
/// those came to us: up to d of them, shared among its waits, have the roots that these have; only d − y are
/// the peer's own. (What the peer did during our wait alone would not tell: it then often makes up for a
/// delay that it had earlier.)
///
/// Waits are resolved in the order of their ends: what a peer waited for before the action that ends our wait
/// ended earlier. Each keeps its largest roots, so that a chain is followed one link at a time.
class RootTracing {
 public:
  explicit RootTracing(size_t ranks) : gaps_(ranks) {}

  /// A new step, whose first action is at `begin`.
  void clear(double begin);
  /// Gaps of a rank, in the order of time. Whatever is in no gap, the rank itself is behind.
  void add_wait(int rank, int peer, double begin, double end) { add(rank, {begin, end, peer, -1, true}); }
  void add_transfer(int rank, int source, int destination, double begin, double end) {
    add(rank, {begin, end, source, destination, false});
  }
  /// The rank is held up by `culprit`, which is late by itself.
  void add_late(int rank, int culprit, double begin, double end) {
    add(rank, {begin, end, culprit, -1, false});
  }
  /// The rank waits for `culprit`, which stands still: nobody else is behind that.
  void add_held(int rank, int culprit, double begin, double end) {
    add(rank, {begin, end, culprit, -1, false, true});
  }
  /// Adds to each rank's `roots` what its counted waits come to.
  void resolve(std::vector<RankAccount>& ranks);
  /// The rank's gaps so far are followed only (its fill).
  void count_from_here(int rank) { gaps_[static_cast<size_t>(rank)].counted_from = gaps_of(rank).size(); }

 private:
  static constexpr size_t kept_roots = 4;  ///< of a wait

  struct Gap {
    double begin = 0;
    double end = 0;
    int peer = 0;  ///< a wait: who is waited for. A transfer: its source
    int to = -1;   ///< a transfer's destination
    bool wait = false;
    bool held = false;  ///< a wait whose culprit is known
    size_t roots = 0;   ///< the first of `roots_` of a resolved wait
    size_t roots_end = 0;
  };
  struct RankGaps {
    std::vector<Gap> gaps;
    size_t counted_from = 0;
  };
  struct Wait {
    double end = 0;
    int rank = 0;
    size_t gap = 0;
  };

  std::vector<Gap>& gaps_of(int rank) { return gaps_[static_cast<size_t>(rank)].gaps; }
  void add(int rank, const Gap& gap) {
    if (gap.end > gap.begin) gaps_of(rank).push_back(gap);
  }
  void resolve(int rank, size_t gap);
  /// Adds `seconds` of what is behind one of the peer's gaps.
  void inherit(int rank, const Gap& theirs, int peer, double seconds, size_t first);
  void keep_largest(size_t first, double length);
  void add_root(size_t first, int rank, int to, double seconds);

  std::vector<RankGaps> gaps_;
  std::vector<Culprit> roots_;
  double begin_ = 0;
  std::vector<Wait> waits_;
};

/// Adds seconds to the entry of this culprit.
void add_to(std::vector<Culprit>& culprits, int rank, int to, double seconds);

}  // namespace penstock::accounting
