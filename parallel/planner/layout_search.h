#pragma once

#include <cstddef>
#include <vector>

#include "parallel/planner/layout_scorer.h"

namespace penstock::planner {

/// How long a search may take: actions timed (some nanoseconds each; LayoutScorer::spent()) and partial
/// layouts tried.
struct SearchBudget {
  double actions = 1e8;
  double partial_layouts = 1e5;
};

struct SearchResult {
  Layout layout;
  Score score;
  /// Every layout was tried or excluded by a bound: none is better.
  bool proved = false;
};

/// Cuts units into the schedule's stages so that the step is short, within memory. From `seeds` (unit counts
/// a stage) and the cuts that balance time, a local search moves stage boundaries, again and again from
/// shaken layouts; then, as far as the budget goes, all layouts that a bound does not exclude are tried.
/// Never worse than any seed. The same result every time.
SearchResult search_layout(LayoutScorer& scorer, const std::vector<std::vector<int>>& seeds,
                           const SearchBudget& budget);

/// Improves `found` by moving units between stages, until no move helps or `actions` are spent.
void improve_locally(LayoutScorer& scorer, SearchResult& found, double actions);

/// The same from layouts near `found` that a few random moves lead to, until `actions` are spent.
void improve_by_shaking(LayoutScorer& scorer, SearchResult& found, double actions);

/// Tries all layouts that may be better than `found`, and says whether it came to the end within
/// `actions` and `partial_layouts`.
bool improve_exhaustively(LayoutScorer& scorer, SearchResult& found, double actions, double partial_layouts);

/// With `found`'s units, tries the recompute modes that fit, one rank after another.
void improve_recompute(LayoutScorer& scorer, SearchResult& found);

}  // namespace penstock::planner
