#include "trainer/budget/window.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "trainer/accounting/median.h"

namespace penstock::budget {

using accounting::Culprit;
using accounting::Part;

namespace {

double percentile_95(std::vector<double> values) {
  constexpr double share = 0.95;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::optional<double> amplification(const std::vector<StepObservation>& steps) {
  std::vector<double> others;
  double sum = 0;
  double count = 0;
  for (const StepObservation& step : steps) {
    if (step.paused) {
      sum += step.bubble_ratio;
      count += 1;
    } else {
      others.push_back(step.bubble_ratio);
    }
  }
  const double usual = accounting::median(std::move(others));
  if (count == 0 || usual <= 0) return std::nullopt;
  return sum / count / usual;
}

Attribution attribution(const std::vector<StepObservation>& steps) {
  Attribution why;
  const auto count = static_cast<double>(steps.size());
  std::map<std::pair<int, int>, int> slowest;
  int most = 0;
  for (const StepObservation& step : steps) {
    why.step += step.seconds / count;
    for (size_t part = 0; part < accounting::part_count; ++part)
      why.parts[static_cast<Part>(part)] += step.parts[static_cast<Part>(part)] / count;
    for (const Culprit& root : step.roots) {
      add_culprit(why.roots, {root.rank, root.to, root.seconds / count});
      why.waits += root.seconds / count;
    }
    const int times = ++slowest[{step.slowest_rank, step.slowest_stage}];
    if (times <= most) continue;
    most = times;
    why.slowest_rank = step.slowest_rank;
    why.slowest_stage = step.slowest_stage;
  }
  std::stable_sort(why.roots.begin(), why.roots.end(),
                   [](const Culprit& a, const Culprit& b) { return a.seconds > b.seconds; });
  return why;
}

}  // namespace

std::optional<Window> WindowBuilder::add(const StepObservation& step) {
  steps_.push_back(step);
  if (steps_.size() < size_) return std::nullopt;
  Window window = close();
  steps_.clear();
  return window;
}

Window WindowBuilder::close() const {
  Window window;
  window.first_step = steps_.front().step;
  window.last_step = steps_.back().step;
  const auto count = static_cast<double>(steps_.size());
  std::vector<double> seconds;
  double all = 0;
  double bubble = 0;
  for (const StepObservation& step : steps_) {
    seconds.push_back(step.seconds);
    all += step.seconds;
    bubble += step.bubble_ratio * step.seconds;
    window.stage_imbalance += step.stage_imbalance / count;
    window.drain += step.drain / count;
  }
  window.step = all / count;
  window.bubble_ratio = all > 0 ? bubble / all : 0;
  window.step_p95 = percentile_95(std::move(seconds));
  window.amplification = amplification(steps_);
  window.why = attribution(steps_);
  return window;
}

}  // namespace penstock::budget
