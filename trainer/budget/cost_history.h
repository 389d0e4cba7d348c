#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "trainer/budget/estimate.h"
#include "trainer/budget/observation.h"

namespace penstock::budget {

/// F + I + W by rank.
std::vector<double> totals(const std::vector<std::array<double, 3>>& work);
/// By which ranks took longer than `work`, what they ought to take: (P).
std::vector<double> paces(const std::vector<std::array<double, 3>>& measured,
                          const std::vector<double>& work);

/// What ranks took lately, against what they should.
///
/// A rank's `level` in a step is its measured busy time ÷ that of its units by the given costs. Windows in a
/// row whose levels are alike are a segment; where a window's level of any rank is off, a new segment begins
/// with it. Costs are means over the segment, at most its last `kept_windows`; how levels vary and how long
/// they resemble themselves is estimated from this segment and the one before.
class CostHistory {
 public:
  static constexpr size_t kept_windows = 12;
  /// A level that is off by less is no change, however sure. Beyond it, a change is `change_sigmas` off.
  static constexpr double least_change = 0.03;
  static constexpr double change_sigmas = 4;

  struct Step {
    double seconds = 0;
    bool judged = true;                           ///< no pause in it
    std::vector<std::array<double, 3>> measured;  ///< (P): F, I with R, W; seconds of the step
  };

  /// A step of ranks that ought to take `expected` (P), SimulatedArrangement::work() of the given costs.
  void add(const StepObservation& step, const SimulatedArrangement& running,
           const std::vector<std::array<double, 3>>& expected);
  /// The window is full.
  void end_window();
  /// Ranks hold other units from now on.
  void restart();

  const std::vector<Step>& segment() const { return current_.steps; }
  size_t windows() const { return current_.windows.size(); }
  /// Segments that began before this one.
  size_t number() const { return number_; }
  /// Of ranks' levels.
  const SeriesNoise& noise() const { return noise_; }
  /// By which F, I and W of all ranks take longer than by the given costs, beside what is a rank's own pace.
  std::array<double, 3> action_factors() const;
  /// Mean levels of the segment (P).
  std::vector<double> levels() const;
  /// Whether levels that were means over `steps` are others than this segment's.
  bool differ(const std::vector<double>& levels, size_t steps) const;

 private:
  struct Segment {
    std::vector<Step> steps;
    std::vector<std::vector<double>> levels;  ///< a series a rank
    std::vector<size_t> windows;              ///< steps of each
  };

  void estimate_noise();
  /// Mean of levels of steps [begin, end), by rank.
  static std::vector<double> means(const Segment& segment, size_t begin, size_t end);
  bool differ(const std::vector<double>& a, size_t a_steps, const std::vector<double>& b,
              size_t b_steps) const;

  Segment current_;
  Segment before_;
  std::vector<std::array<double, 3>> expected_;  ///< of the current segment
  size_t open_ = 0;                              ///< steps of the window that is not full
  size_t number_ = 0;
  SeriesNoise noise_;
};

}  // namespace penstock::budget
