#include "trainer/budget/cost_history.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::budget {

namespace {

double sum_of(const std::array<double, 3>& actions) {
  return actions[0] + actions[1] + actions[2];
}

std::ptrdiff_t offset(size_t index) {
  return static_cast<std::ptrdiff_t>(index);
}

}  // namespace

std::vector<double> totals(const std::vector<std::array<double, 3>>& work) {
  std::vector<double> made;
  for (const auto& rank : work) made.push_back(sum_of(rank));
  return made;
}

std::vector<double> paces(const std::vector<std::array<double, 3>>& measured,
                          const std::vector<double>& work) {
  std::vector<double> made = totals(measured);
  for (size_t rank = 0; rank < made.size(); ++rank) made[rank] /= work[rank];
  return made;
}

void CostHistory::add(const StepObservation& step, const SimulatedArrangement& running,
                      const std::vector<std::array<double, 3>>& expected) {
  expected_ = expected;
  Step made{step.seconds, !step.paused, std::vector<std::array<double, 3>>(expected.size(), {0, 0, 0})};
  for (const planner::MeasuredRun& run : step.runs) {
    if (run.members.empty()) continue;
    auto& rank = made.measured[static_cast<size_t>(running.rank_of_unit(run.members.front().unit))];
    rank[0] += run.forward;
    rank[1] += run.backward_input + run.recompute.value_or(0);
    rank[2] += run.backward_weight;
  }
  current_.levels.resize(expected.size());
  for (size_t rank = 0; rank < expected.size(); ++rank)
    current_.levels[rank].push_back(sum_of(made.measured[rank]) / sum_of(expected[rank]));
  current_.steps.push_back(std::move(made));
  ++open_;
}

std::vector<double> CostHistory::means(const Segment& segment, size_t begin, size_t end) {
  std::vector<double> made;
  for (const std::vector<double>& series : segment.levels) {
    double sum = 0;
    for (size_t t = begin; t < end; ++t) sum += series[t];
    made.push_back(sum / static_cast<double>(end - begin));
  }
  return made;
}

bool CostHistory::differ(const std::vector<double>& a, size_t a_steps, const std::vector<double>& b,
                         size_t b_steps) const {
  const double error = noise_.sigma * std::sqrt(variance_of_mean(noise_.correlation, a_steps) +
                                                variance_of_mean(noise_.correlation, b_steps));
  const double far = std::max(least_change, change_sigmas * error);
  for (size_t rank = 0; rank < a.size(); ++rank) {
    if (std::abs(a[rank] / b[rank] - 1) > far) return true;
  }
  return false;
}

bool CostHistory::differ(const std::vector<double>& other, size_t steps) const {
  return differ(levels(), current_.steps.size(), other, steps);
}

void CostHistory::end_window() {
  if (open_ == 0) return;
  const size_t all = current_.steps.size();
  const size_t earlier = all - open_;
  if (earlier == 0) {
    current_.windows.push_back(open_);
    open_ = 0;
    estimate_noise();
    return;
  }
  if (differ(means(current_, earlier, all), open_, means(current_, 0, earlier), earlier)) {
    Segment next;
    next.windows.push_back(open_);
    next.steps.assign(current_.steps.begin() + offset(earlier), current_.steps.end());
    current_.steps.resize(earlier);
    for (std::vector<double>& series : current_.levels) {
      next.levels.emplace_back(series.begin() + offset(earlier), series.end());
      series.resize(earlier);
    }
    open_ = 0;
    restart();
    current_ = std::move(next);
  } else {
    current_.windows.push_back(open_);
    open_ = 0;
    if (current_.windows.size() > kept_windows) {
      const size_t oldest = current_.windows.front();
      current_.windows.erase(current_.windows.begin());
      current_.steps.erase(current_.steps.begin(), current_.steps.begin() + offset(oldest));
      for (std::vector<double>& series : current_.levels)
        series.erase(series.begin(), series.begin() + offset(oldest));
    }
  }
  estimate_noise();
}

void CostHistory::restart() {
  // A segment of a window or two says less of how levels vary than the one before it.
  if (current_.windows.size() >= 3 || before_.steps.empty()) before_ = std::move(current_);
  current_ = {};
  open_ = 0;
  ++number_;
}

void CostHistory::estimate_noise() {
  std::vector<std::vector<double>> series;
  for (const Segment* segment : {&before_, &current_}) {
    for (const std::vector<double>& levels : segment->levels) {
      double mean = 0;
      for (const double level : levels) mean += level / static_cast<double>(levels.size());
      std::vector<double>& relative = series.emplace_back(levels);
      for (double& level : relative) level /= mean;
    }
  }
  noise_ = noise_of(series);
}

std::array<double, 3> CostHistory::action_factors() const {
  std::vector<std::array<double, 3>> measured(expected_.size(), {0, 0, 0});
  const auto steps = static_cast<double>(current_.steps.size());
  for (const Step& step : current_.steps) {
    for (size_t rank = 0; rank < measured.size(); ++rank) {
      for (size_t action = 0; action < 3; ++action)
        measured[rank][action] += step.measured[rank][action] / steps;
    }
  }
  // measured ≈ factor of the action · pace of the rank · expected: each in turn, so that sums over the other
  // are right, until both are.
  constexpr int rounds = 50;
  std::array<double, 3> factors{1, 1, 1};
  for (int round = 0; round < rounds; ++round) {
    std::array<double, 3> found{0, 0, 0};
    std::array<double, 3> paced{0, 0, 0};
    for (size_t rank = 0; rank < measured.size(); ++rank) {
      double scaled = 0;
      for (size_t action = 0; action < 3; ++action) scaled += factors[action] * expected_[rank][action];
      const double pace = sum_of(measured[rank]) / scaled;
      for (size_t action = 0; action < 3; ++action) {
        found[action] += measured[rank][action];
        paced[action] += pace * expected_[rank][action];
      }
    }
    for (size_t action = 0; action < 3; ++action) {
      if (found[action] > 0 && paced[action] > 0) factors[action] = found[action] / paced[action];
    }
  }
  return factors;
}

std::vector<double> CostHistory::levels() const {
  return means(current_, 0, current_.steps.size());
}

}  // namespace penstock::budget
