#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "parallel/planner/machine.h"
#include "parallel/planner/rank_memory.h"
#include "parallel/planner/step_forecast.h"
#include "parallel/planner/unit_sums.h"
#include "parallel/schedule/schedule.h"

namespace penstock::planner {

/// How good a layout is: less is better, member by member.
struct Score {
  int64_t overflow = 0;  ///< bytes above the limits, all ranks together
  double step = 0;       ///< seconds
  double spread = 0;     ///< sum of squares of the ranks' busy times: breaks ties on plateaus

  /// Times that differ in their last bits are equal.
  bool better_than(const Score& other) const;
};

/// Which recompute modes a layout may have.
struct RecomputeChoice {
  /// May be chosen for any stage, each rank within its own memory.
  std::array<bool, recompute_modes> allowed{true, true, true};
  std::vector<Recompute> fixed;  ///< (S): the job's own, a block each; empty: chosen
};

/// Judges layouts of one schedule. Chooses each stage's recompute mode from what its rank's memory leaves:
/// the cheapest combination that fits.
class LayoutScorer {
 public:
  LayoutScorer(const UnitSums& sums, const Machine& machine, schedule::Schedule schedule,
               RecomputeChoice recompute);

  /// A layout's score; its recompute modes are filled in.
  Score score(Layout& layout);
  /// With the modes it has.
  Score score_as_it_is(const Layout& layout);
  /// The same as score(), but possibly only the bound where that is no better than `best` already.
  Score score_against(Layout& layout, const Score& best);

  /// Where messages occupy links: their order is taken from this layout from now on. Small graphs do so by
  /// themselves for every layout. Says whether scores so far are void.
  bool settle(const Layout& layout);

  /// Combinations of a rank's stages' modes that fit its memory and are worse than no other in all stages:
  /// all that can be part of a best layout of these units. None where a rank has many stages, or another rank
  /// copies of them.
  std::vector<std::vector<Recompute>> choices(const Layout& layout, int rank);

  /// Bytes of the ranks with the boundary buffers that are assumed.
  std::vector<RankMemory> memory(const Layout& layout) const;
  /// What a lowered program of this schedule took. Until then two of each kind are assumed.
  void set_buffers(std::vector<BoundaryBuffers> buffers) { buffers_ = std::move(buffers); }
  const std::vector<BoundaryBuffers>& buffers() const { return buffers_; }

  StepForecast& forecast() { return forecast_; }
  const UnitSums& sums() const { return sums_; }
  const Machine& machine() const { return machine_; }
  const schedule::Schedule& schedule() const { return forecast_.schedule(); }
  /// Seconds of a micro-batch in [begin, end) as stage `stage`, in the cheapest mode; in the cheapest with
  /// which the stage alone fits its rank, infinite if there is none.
  double least_time(int stage, int begin, int end) const;
  double least_fitting_time(int stage, int begin, int end) const;
  /// What all scores took so far, in actions timed: a search's budget.
  double spent() const { return spent_; }

 private:
  /// A stage under a mode.
  struct Option {
    schedule::StageCosts times;
    int64_t slots = 0;
    int64_t transient = 0;
  };
  struct StageTerms {
    int begin = -1;
    int end = -1;
    std::array<Option, recompute_modes> options;
    int64_t resident = 0;
    int64_t workspace = 0;
    double optimizer = 0;
  };

  const Option& option(int stage, Recompute mode) const {
    return terms_[static_cast<size_t>(stage)].options[static_cast<size_t>(mode)];
  }
  bool may(int stage, Recompute mode) const;
  size_t block(int stage) const { return static_cast<size_t>(schedule().block_of(stage)); }
  /// The modes of the rank's stages.
  std::vector<Recompute> modes_of(const Layout& layout, int rank) const;
  void update_terms(const Layout& layout);
  int64_t fixed_bytes(int rank) const;
  int64_t bytes(int rank, const std::vector<Recompute>& modes) const;
  /// Bytes above its limit, and above that of the rank that holds copies of the same stages.
  int64_t excess(int rank, const std::vector<Recompute>& modes) const;
  /// Calls `visit` with every combination of modes of the rank's stages.
  template <class Visit>
  void for_each_combination(int rank, Visit visit) const;
  void choose_modes(Layout& layout);
  Recompute cheapest(int stage) const;
  void choose_many(int rank, std::vector<Recompute>& modes) const;
  void price(const Layout& layout);
  int64_t overflow(const Layout& layout) const;
  double spread() const;
  /// No step is shorter, whatever the order of actions allows.
  double bound() const;
  Score forecast_score(const Layout& layout);

  const UnitSums& sums_;
  const Machine& machine_;
  RecomputeChoice recompute_;
  StepForecast forecast_;
  std::vector<SlotCounts> slots_;
  std::vector<std::vector<int>> owned_;
  std::vector<BoundaryBuffers> buffers_;
  std::vector<StageTerms> terms_;
  schedule::Costs costs_;
  // For bound(): by rank the stage of its first action; by stage and op how often its rank runs it, in all
  // and up to the last input gradient of the rank's first stage; by boundary what a message takes, both ways.
  std::vector<int> entry_;
  std::vector<double> counts_;
  std::vector<double> counts_to_exit_;
  std::vector<double> forward_delay_;
  std::vector<double> backward_delay_;
  std::vector<bool> split_;
  bool contended_ = false;
  double spent_ = 0;
};

}  // namespace penstock::planner
