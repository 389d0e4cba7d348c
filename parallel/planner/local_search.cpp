// Moves units between stages while that makes the step shorter. A unit goes from stage `from` to stage `to`
// by shifting every boundary between them.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <utility>

#include "parallel/planner/cut.h"
#include "parallel/planner/layout_search.h"

namespace penstock::planner {

namespace {

// Moves that are tried at most; of very many stages only the near ones.
constexpr int most_moves = 1 << 16;

struct Move {
  int from = 0;
  int to = 0;
  int units = 1;
};

// Near moves first: they disturb least.
std::vector<Move> moves(int stages) {
  std::vector<Move> all;
  const int far = std::min(stages - 1, std::max(1, most_moves / 4 / stages));
  for (int distance = 1; distance <= far; ++distance) {
    for (int left = 0; left + distance < stages; ++left) {
      for (const int units : {1, 2}) {
        all.push_back({left, left + distance, units});
        all.push_back({left + distance, left, units});
      }
    }
  }
  return all;
}

bool apply(const Move& move, Layout& layout) {
  int& giver = layout.units[static_cast<size_t>(move.from)];
  if (giver <= move.units) return false;
  giver -= move.units;
  layout.units[static_cast<size_t>(move.to)] += move.units;
  return true;
}

class LocalSearch {
 public:
  LocalSearch(LayoutScorer& scorer, SearchResult& found, double actions)
      : scorer_(scorer),
        found_(found),
        last_(scorer.spent() + actions),
        moves_(moves(scorer.schedule().blocks())) {}

  void run() {
    while (sweep()) {
      if (scorer_.settle(found_.layout)) found_.score = scorer_.score_as_it_is(found_.layout);
    }
  }

 private:
  bool spent() const { return scorer_.spent() >= last_; }

  bool try_layout(Layout& layout) {
    const Score score = scorer_.score_against(layout, found_.score);
    if (!score.better_than(found_.score)) return false;
    found_.layout = layout;
    found_.score = score;
    return true;
  }

  // Goes on where the last improvement was found, so that all moves get their turn.
  bool sweep() {
    bool improved = false;
    for (size_t tried = 0; tried < moves_.size() && !spent(); ++tried) {
      Layout layout = found_.layout;
      const Move& move = moves_[next_];
      next_ = (next_ + 1) % moves_.size();
      if (apply(move, layout) && try_layout(layout)) {
        improved = true;
        tried = 0;
      }
    }
    return improved && !spent();
  }

  LayoutScorer& scorer_;
  SearchResult& found_;
  double last_;
  std::vector<Move> moves_;
  size_t next_ = 0;
};

// Cuts the units so that no stage takes longer than it must, each at its own rank's pace and in its cheapest
// mode: the shortest time for which stages that take as much as they can reach the last unit.
std::vector<int> cut_by_pace(const LayoutScorer& scorer) {
  const int S = scorer.schedule().blocks();
  const int units = scorer.sums().units();
  const auto fill = [&](double limit, std::vector<int>* counts) {
    int begin = 0;
    for (int stage = 0; stage < S; ++stage) {
      const int last = units - (S - stage - 1);
      int end = begin + 1;
      if (scorer.least_time(stage, begin, end) > limit) return false;
      while (end < last && scorer.least_time(stage, begin, end + 1) <= limit) ++end;
      if (counts != nullptr) counts->push_back(end - begin);
      begin = end;
    }
    return begin == units;
  };
  double low = 0;
  double high = 0;
  for (int stage = 0; stage < S; ++stage) high = std::max(high, scorer.least_time(stage, 0, units));
  constexpr int halvings = 40;
  for (int i = 0; i < halvings; ++i) {
    const double middle = (low + high) / 2;
    (fill(middle, nullptr) ? high : low) = middle;
  }
  std::vector<int> counts;
  fill(high, &counts);
  return counts;
}

}  // namespace

void improve_locally(LayoutScorer& scorer, SearchResult& found, double actions) {
  if (scorer.schedule().blocks() > 1) LocalSearch(scorer, found, actions).run();
}

void improve_by_shaking(LayoutScorer& scorer, SearchResult& found, double actions) {
  const std::vector<Move> all = moves(scorer.schedule().blocks());
  if (all.empty() || scorer.sums().units() == scorer.schedule().blocks()) return;
  std::minstd_rand random(1);
  const double last = scorer.spent() + actions;
  while (scorer.spent() < last) {
    SearchResult shaken = found;
    const auto shakes = 2 + random() % 3;
    for (unsigned i = 0; i < shakes; ++i) apply(all[random() % all.size()], shaken.layout);
    shaken.score = scorer.score(shaken.layout);
    improve_locally(scorer, shaken, last - scorer.spent());
    if (shaken.score.better_than(found.score)) found = shaken;
  }
}

SearchResult search_layout(LayoutScorer& scorer, const std::vector<std::vector<int>>& seeds,
                           const SearchBudget& budget) {
  std::vector<std::vector<int>> all = seeds;
  all.push_back(cut_by_pace(scorer));
  std::vector<double> times;
  times.reserve(static_cast<size_t>(scorer.sums().units()));
  for (int unit = 0; unit < scorer.sums().units(); ++unit)
    times.push_back(scorer.least_time(0, unit, unit + 1));
  all.push_back(cut_evenly(times, scorer.schedule().blocks()));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());

  double left = budget.actions;
  std::vector<SearchResult> starts;
  for (const std::vector<int>& units : all) {
    SearchResult start;
    start.layout.units = units;
    start.score = scorer.score(start.layout);
    starts.push_back(std::move(start));
  }
  std::stable_sort(starts.begin(), starts.end(),
                   [](const SearchResult& a, const SearchResult& b) { return a.score.better_than(b.score); });
  SearchResult best = starts.front();
  // A third of what is left for each start, the best one first; the rest for the proof and for shaking.
  for (SearchResult& start : starts) {
    const double before = scorer.spent();
    improve_locally(scorer, start, left / 3);
    left -= std::min(left, scorer.spent() - before);
    if (start.score.better_than(best.score)) best = start;
  }
  improve_recompute(scorer, best);
  best.proved = improve_exhaustively(scorer, best, left, budget.partial_layouts);
  if (!best.proved && left > 0) improve_by_shaking(scorer, best, left);
  return best;
}

}  // namespace penstock::planner
