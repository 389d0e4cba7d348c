#include "trainer/accounting/root_tracing.h"

#include <algorithm>

namespace penstock::accounting {

void add_to(std::vector<Culprit>& culprits, int rank, int to, double seconds) {
  if (seconds <= 0) return;
  for (Culprit& culprit : culprits) {
    if (culprit.rank != rank || culprit.to != to) continue;
    culprit.seconds += seconds;
    return;
  }
  culprits.push_back({rank, to, seconds});
}

void RootTracing::clear() {
  for (RankGaps& rank : gaps_) {
    rank.gaps.clear();
    rank.counted_from = 0;
  }
  pieces_.clear();
  waits_.clear();
}

void RootTracing::resolve(std::vector<RankAccount>& ranks) {
  for (size_t rank = 0; rank < gaps_.size(); ++rank) {
    const std::vector<Gap>& gaps = gaps_[rank].gaps;
    for (size_t gap = 0; gap < gaps.size(); ++gap) {
      if (gaps[gap].wait) waits_.push_back({gaps[gap].end, static_cast<int>(rank), gap});
    }
  }
  std::sort(waits_.begin(), waits_.end(), [](const Wait& a, const Wait& b) { return a.end < b.end; });
  for (const Wait& wait : waits_) {
    Gap& gap = gaps_of(wait.rank)[wait.gap];
    resolve(gap);
    if (wait.gap < gaps_[static_cast<size_t>(wait.rank)].counted_from) continue;
    double at = gap.begin;
    for (size_t p = gap.pieces; p < gap.pieces_end; ++p) {
      const Piece& piece = pieces_[p];
      add_to(ranks[static_cast<size_t>(wait.rank)].roots, piece.rank, piece.to, piece.end - at);
      at = piece.end;
    }
  }
}

// Cuts a wait at what its peer did meanwhile.
void RootTracing::resolve(Gap& wait) {
  const size_t first = pieces_.size();
  const std::vector<Gap>& theirs = gaps_of(wait.peer);
  double at = wait.begin;
  auto gap = std::upper_bound(theirs.begin(), theirs.end(), at,
                              [](double time, const Gap& each) { return time < each.end; });
  for (; gap != theirs.end() && gap->begin < wait.end; ++gap) {
    piece(first, at, gap->begin, wait.peer, -1);
    const double until = std::min(gap->end, wait.end);
    if (!gap->wait) {
      piece(first, at, until, gap->peer, gap->to);
    } else {
      copy_pieces(first, *gap, at, until);
      // Not resolved yet: clocks that are off by a little. The peer's own peer is as far as we see.
      piece(first, at, until, gap->peer, -1);
    }
  }
  piece(first, at, wait.end, wait.peer, -1);
  wait.pieces = first;
  wait.pieces_end = pieces_.size();
}

void RootTracing::piece(size_t first, double& at, double end, int rank, int to) {
  if (end <= at) return;
  at = end;
  if (pieces_.size() > first && pieces_.back().rank == rank && pieces_.back().to == to) {
    pieces_.back().end = end;
  } else {
    pieces_.push_back({end, rank, to});
  }
}

void RootTracing::copy_pieces(size_t first, const Gap& from, double& at, double end) {
  for (size_t p = from.pieces; p < from.pieces_end; ++p) {
    const Piece copied = pieces_[p];  // the list grows under us
    piece(first, at, std::min(copied.end, end), copied.rank, copied.to);
    if (copied.end >= end) return;
  }
}

}  // namespace penstock::accounting
