#include "trainer/accounting/root_tracing.h"

#include <algorithm>
#include <utility>

namespace penstock::accounting {

void add_to(std::vector<Culprit>& culprits, int rank, int to, double seconds) {
  if (seconds <= 0) return;
  for (size_t at = 0; at < culprits.size(); ++at) {
    if (culprits[at].rank != rank || culprits[at].to != to) continue;
    culprits[at].seconds += seconds;
    // Those that come often move to the front.
    std::swap(culprits[at], culprits[at / 2]);
    return;
  }
  culprits.push_back({rank, to, seconds});
}

void RootTracing::clear(double begin) {
  begin_ = begin;
  for (RankGaps& rank : gaps_) {
    rank.gaps.clear();
    rank.counted_from = 0;
  }
  roots_.clear();
  waits_.clear();
}

void RootTracing::resolve(std::vector<RankAccount>& ranks) {
  for (size_t rank = 0; rank < gaps_.size(); ++rank) {
    const std::vector<Gap>& gaps = gaps_[rank].gaps;
    for (size_t gap = 0; gap < gaps.size(); ++gap) {
      if (gaps[gap].held && gap >= gaps_[rank].counted_from)
        add_to(ranks[rank].roots, gaps[gap].peer, -1, gaps[gap].end - gaps[gap].begin);
      if (gaps[gap].wait) waits_.push_back({gaps[gap].end, static_cast<int>(rank), gap});
    }
  }
  std::sort(waits_.begin(), waits_.end(), [](const Wait& a, const Wait& b) { return a.end < b.end; });
  for (const Wait& wait : waits_) {
    resolve(wait.rank, wait.gap);
    const Gap& gap = gaps_of(wait.rank)[wait.gap];
    if (wait.gap < gaps_[static_cast<size_t>(wait.rank)].counted_from) continue;
    for (size_t at = gap.roots; at < gap.roots_end; ++at)
      add_to(ranks[static_cast<size_t>(wait.rank)].roots, roots_[at].rank, roots_[at].to, roots_[at].seconds);
  }
}

void RootTracing::resolve(int rank, size_t number) {
  Gap& wait = gaps_of(rank)[number];
  const double since = number > 0 ? std::min(gaps_of(rank)[number - 1].end, wait.begin) : begin_;
  const std::vector<Gap>& theirs = gaps_of(wait.peer);
  const auto first_gap = std::upper_bound(theirs.begin(), theirs.end(), since,
                                          [](double time, const Gap& each) { return time < each.end; });
  const auto inside = [&](const Gap& gap) {
    return std::min(gap.end, wait.end) - std::max(gap.begin, since);
  };
  double waited = 0;
  for (auto gap = first_gap; gap != theirs.end() && gap->begin < wait.end; ++gap) waited += inside(*gap);
  const double length = wait.end - wait.begin;
  const size_t first = roots_.size();
  const double scale = waited > length ? length / waited : 1;
  for (auto gap = first_gap; gap != theirs.end() && gap->begin < wait.end; ++gap)
    inherit(rank, *gap, wait.peer, scale * inside(*gap), first);
  add_root(first, wait.peer, -1, length - waited);
  keep_largest(first, length);
  wait.roots = first;
  wait.roots_end = roots_.size();
}

// Chains over many ranks would gather a little of each: the largest roots take over the others' seconds.
void RootTracing::keep_largest(size_t first, double length) {
  if (roots_.size() - first <= kept_roots) return;
  const auto begin = roots_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto kept = begin + static_cast<std::ptrdiff_t>(kept_roots);
  std::partial_sort(begin, kept, roots_.end(),
                    [](const Culprit& a, const Culprit& b) { return a.seconds > b.seconds; });
  roots_.erase(kept, roots_.end());
  double sum = 0;
  for (size_t at = first; at < roots_.size(); ++at) sum += roots_[at].seconds;
  for (size_t at = first; at < roots_.size(); ++at) roots_[at].seconds *= length / sum;
}

void RootTracing::inherit(int rank, const Gap& theirs, int peer, double seconds, size_t first) {
  if (!theirs.wait) {
    add_root(first, theirs.peer, theirs.to, seconds);
    return;
  }
  // Not resolved yet: clocks that are off by a little. The peer's own peer is as far as we see.
  if (theirs.roots == theirs.roots_end) add_root(first, theirs.peer, -1, seconds);
  for (size_t at = theirs.roots; at < theirs.roots_end; ++at) {
    const Culprit root = roots_[at];  // the list grows under us
    // It waited for us: whoever answers late to that is the peer.
    const bool ours = root.to < 0 && root.rank == rank;
    add_root(first, ours ? peer : root.rank, root.to, seconds * root.seconds / (theirs.end - theirs.begin));
  }
}

void RootTracing::add_root(size_t first, int rank, int to, double seconds) {
  if (seconds <= 0) return;
  for (size_t at = first; at < roots_.size(); ++at) {
    if (roots_[at].rank != rank || roots_[at].to != to) continue;
    roots_[at].seconds += seconds;
    return;
  }
  roots_.push_back({rank, to, seconds});
}

}  // namespace penstock::accounting
