// All layouts, stage by stage from the front, but for those that a bound excludes: a rank cannot end before
// it has entered the step and worked through all micro-batches, and what is not placed yet must fit what the
// ranks have left until the best step known.
#include <algorithm>
#include <numeric>

#include "parallel/planner/layout_search.h"

namespace penstock::planner {

namespace {

// Layouts with more combinations of recompute modes than this are improved rank by rank.
constexpr size_t most_combinations = 1 << 10;

class Exhaustive {
 public:
  Exhaustive(LayoutScorer& scorer, SearchResult& found, double actions, double partial_layouts)
      : scorer_(scorer),
        found_(found),
        last_(scorer.spent() + actions),
        left_(partial_layouts),
        weight_(std::max(1.0, scorer.machine().ranks / 16.0)),
        stages_(scorer.schedule().stages()),
        units_(scorer.sums().units()),
        busy_(static_cast<size_t>(scorer.machine().ranks), 0),
        enter_(busy_.size(), -1),
        open_stages_(busy_.size(), 0) {
    for (const int rank : scorer.schedule().rank_of_stage) ++open_stages_[static_cast<size_t>(rank)];
    double pace = scorer.machine().pace_of(0);
    for (int rank = 0; rank < scorer.machine().ranks; ++rank)
      pace = std::min(pace, scorer.machine().pace_of(rank));
    // Of the units from here to the end, wherever they come to lie.
    rest_.assign(static_cast<size_t>(units_) + 1, 0);
    for (int unit = units_ - 1; unit >= 0; --unit) {
      rest_[static_cast<size_t>(unit)] = rest_[static_cast<size_t>(unit) + 1] +
                                         scorer.least_time(0, unit, unit + 1) /
                                             scorer.machine().pace_of(scorer.schedule().rank_of_stage[0]) *
                                             pace;
    }
    layout_.units.assign(static_cast<size_t>(stages_), 0);
  }

  bool run() {
    place(0, 0, 0);
    return !stopped_;
  }

 private:
  int micro_batches() const { return scorer_.schedule().micro_batches; }

  void place(int stage, int begin, double entered) {
    if (stage == stages_) {
      try_layout();
      return;
    }
    const auto rank = static_cast<size_t>(scorer_.schedule().rank_of_stage[static_cast<size_t>(stage)]);
    const double busy_before = busy_[rank];
    const double enter_before = enter_[rank];
    if (enter_[rank] < 0) enter_[rank] = entered;
    --open_stages_[rank];
    const int first = stage + 1 == stages_ ? units_ : begin + 1;
    for (int end = first; end <= units_ - (stages_ - stage - 1) && !stopped_; ++end) {
      left_ -= weight_;
      if (left_ < 0) stopped_ = true;
      const bool fits = found_.score.overflow == 0;
      busy_[rank] = busy_before + micro_batches() * (fits ? scorer_.least_fitting_time(stage, begin, end)
                                                          : scorer_.least_time(stage, begin, end));
      if (enter_[rank] + busy_[rank] > limit()) break;
      const double forward = least_forward(stage, begin, end);
      if (rest_fits(end, entered + forward)) {
        layout_.units[static_cast<size_t>(stage)] = end - begin;
        place(stage + 1, end, entered + forward);
      }
    }
    ++open_stages_[rank];
    busy_[rank] = busy_before;
    enter_[rank] = enter_before;
  }

  // Bounds are compared with a little room: sums of the same costs differ in their last bits.
  double limit() const { return found_.score.overflow > 0 ? 1e300 : found_.score.step * (1 + 1e-9); }

  double least_forward(int stage, int begin, int end) const {
    double least = 1e300;
    for (size_t m = 0; m < recompute_modes; ++m) {
      if (!scorer_.sums().model().available[m]) continue;
      least = std::min(least, scorer_.sums().times(begin, end, static_cast<Recompute>(m)).forward);
    }
    return least * scorer_.machine().pace_of(scorer_.schedule().rank_of_stage[static_cast<size_t>(stage)]);
  }

  bool rest_fits(int begin, double entered) const {
    double room = 0;
    for (size_t rank = 0; rank < busy_.size(); ++rank) {
      if (open_stages_[rank] > 0)
        room += std::max(0.0, limit() - (enter_[rank] < 0 ? entered : enter_[rank]) - busy_[rank]);
    }
    return micro_batches() * rest_[static_cast<size_t>(begin)] <= room;
  }

  void try_layout() {
    if (scorer_.spent() >= last_) {
      stopped_ = true;
      return;
    }
    Layout layout = layout_;
    const Score score = scorer_.score_against(layout, found_.score);
    if (score.better_than(found_.score)) {
      found_.layout = layout;
      found_.score = score;
    }
    try_recompute(layout);
  }

  // All combinations of the ranks' choices.
  void try_recompute(const Layout& layout) {
    std::vector<std::vector<std::vector<Recompute>>> choices;
    size_t combinations = 1;
    for (int rank = 0; rank < scorer_.machine().ranks; ++rank) {
      choices.push_back(scorer_.choices(layout, rank));
      combinations *= choices.back().size();
      if (combinations == 0) return;  // some rank does not fit
      if (combinations > most_combinations) {
        SearchResult candidate{layout, scorer_.score_as_it_is(layout), false};
        improve_recompute(scorer_, candidate);
        if (candidate.score.better_than(found_.score)) {
          found_.layout = candidate.layout;
          found_.score = candidate.score;
        }
        return;
      }
    }
    if (combinations == 1) return;
    const auto owned = scorer_.schedule().stages_by_rank();
    Layout other = layout;
    for (size_t code = 0; code < combinations; ++code) {
      size_t digits = code;
      for (size_t rank = 0; rank < choices.size(); ++rank) {
        const auto& chosen = choices[rank][digits % choices[rank].size()];
        digits /= choices[rank].size();
        for (size_t i = 0; i < chosen.size(); ++i)
          other.recompute[static_cast<size_t>(owned[rank][i])] = chosen[i];
      }
      const Score score = scorer_.score_as_it_is(other);
      if (score.better_than(found_.score)) {
        found_.layout = other;
        found_.score = score;
      }
    }
  }

  LayoutScorer& scorer_;
  SearchResult& found_;
  double last_;
  double left_;
  double weight_;  // of a partial layout: a look at all ranks
  int stages_;
  int units_;
  bool stopped_ = false;
  Layout layout_;
  // By rank: work that is placed, when it starts (−1: not known yet), and stages that are not placed.
  std::vector<double> busy_;
  std::vector<double> enter_;
  std::vector<int> open_stages_;
  std::vector<double> rest_;
};

}  // namespace

bool improve_exhaustively(LayoutScorer& scorer, SearchResult& found, double actions, double partial_layouts) {
  // Its bounds know one owner of a stage.
  if (scorer.schedule().copies > 1) return false;
  return Exhaustive(scorer, found, actions, partial_layouts).run();
}

void improve_recompute(LayoutScorer& scorer, SearchResult& found) {
  const auto owned = scorer.schedule().stages_by_rank();
  bool improved = true;
  while (improved) {
    improved = false;
    for (int rank = 0; rank < scorer.machine().ranks; ++rank) {
      const auto choices = scorer.choices(found.layout, rank);
      if (choices.size() < 2) continue;
      for (const auto& chosen : choices) {
        Layout layout = found.layout;
        const auto& stages = owned[static_cast<size_t>(rank)];
        for (size_t i = 0; i < stages.size(); ++i)
          layout.recompute[static_cast<size_t>(stages[i])] = chosen[i];
        const Score score = scorer.score_as_it_is(layout);
        if (!score.better_than(found.score)) continue;
        found = {layout, score, false};
        improved = true;
      }
    }
  }
}

}  // namespace penstock::planner
