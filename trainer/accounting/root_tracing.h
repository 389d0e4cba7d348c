#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "trainer/accounting/step_account.h"

namespace penstock::accounting {

/// Follows waits to who was behind them: a rank that waits for a peer, which at that moment waits for
/// another, and so on, until a rank that was computing (or was late by itself) or a message that was on its
/// way.
///
/// Waits are resolved in the order of their ends: what a peer waited for before the action that ends our wait
/// ended earlier. Each keeps its pieces, so that a chain is followed one link at a time.
class RootTracing {
 public:
  explicit RootTracing(size_t ranks) : gaps_(ranks) {}

  void clear();
  /// Gaps of a rank, in the order of time. Whatever is in no gap, the rank itself is behind.
  void add_wait(int rank, int peer, double begin, double end) { add(rank, {begin, end, peer, -1, true}); }
  void add_transfer(int rank, int source, int destination, double begin, double end) {
    add(rank, {begin, end, source, destination, false});
  }
  /// Adds to each rank's `roots` what its counted waits come to.
  void resolve(std::vector<RankAccount>& ranks);
  /// The rank's gaps so far are followed only (its fill).
  void count_from_here(int rank) { gaps_[static_cast<size_t>(rank)].counted_from = gaps_of(rank).size(); }

 private:
  struct Gap {
    double begin = 0;
    double end = 0;
    int peer = 0;  ///< a wait: who is waited for. A transfer: its source
    int to = -1;   ///< a transfer's destination
    bool wait = false;
    size_t pieces = 0;  ///< the first of `pieces_` of a resolved wait
    size_t pieces_end = 0;
  };
  struct Piece {
    double end = 0;
    int rank = 0;
    int to = -1;
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
  void resolve(Gap& wait);
  void piece(size_t first, double& at, double end, int rank, int to);
  void copy_pieces(size_t first, const Gap& from, double& at, double end);

  std::vector<RankGaps> gaps_;
  std::vector<Piece> pieces_;
  std::vector<Wait> waits_;
};

/// Adds seconds to the entry of this culprit.
void add_to(std::vector<Culprit>& culprits, int rank, int to, double seconds);

}  // namespace penstock::accounting
