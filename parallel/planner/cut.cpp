#include "parallel/planner/cut.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace penstock::planner {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

class Runs {
 public:
  Runs(const std::vector<double>& costs, int stages)
      : units_(costs.size()), stages_(static_cast<size_t>(stages)), sums_(units_ + 1, 0) {
    for (size_t unit = 0; unit < units_; ++unit) sums_[unit + 1] = sums_[unit] + costs[unit];
  }

  // What the dearest of the runs costs at least. As the first run grows it gets dearer, and the rest cheaper:
  // the best first run ends where they meet.
  double least_dearest() const {
    std::vector<double> rest(units_ + 1, never);
    for (size_t begin = 0; begin < units_; ++begin) rest[begin] = run(begin, units_);
    for (size_t left = 2; left <= stages_; ++left) {
      const size_t last = units_ - left + 1;  // the first run leaves a unit for each of the others
      for (size_t begin = 0; begin < last; ++begin) {
        size_t low = begin + 1;
        size_t high = last;
        while (low < high) {
          const size_t middle = (low + high) / 2;
          run(begin, middle) >= rest[middle] ? high = middle : low = middle + 1;
        }
        double best = std::max(run(begin, low), rest[low]);
        if (low > begin + 1) best = std::min(best, std::max(run(begin, low - 1), rest[low - 1]));
        rest[begin] = best;
      }
      for (size_t begin = last; begin <= units_; ++begin) rest[begin] = never;
    }
    return rest[0];
  }

  // Of the cuts whose runs cost at most `most`, that with the least sum of squares, and of equals that with
  // longer runs in front.
  std::vector<int> least_squares(double most) const {
    // value[stages][first unit] of the suffixes.
    std::vector<std::vector<double>> value(stages_ + 1, std::vector<double>(units_ + 1, never));
    value[0][units_] = 0;
    const auto sum = [&](size_t left, size_t begin, size_t end) {
      const double cost = run(begin, end);
      return cost > most ? never : value[left - 1][end] + cost * cost;
    };
    // Only suffixes that the runs behind them can hold, and prefixes that those in front can: of a deep model
    // cut into few stages nearly all others are out of the question.
    const auto first_held = [&](size_t runs, size_t from) {
      const double held = static_cast<double>(runs) * most * (1 + 1e-9);
      while (from < units_ && run(from, units_) > held) ++from;
      return from;
    };
    for (size_t left = 1; left <= stages_; ++left) {
      const double in_front = static_cast<double>(stages_ - left) * most * (1 + 1e-9);
      size_t first_end = first_held(left - 1, 0);
      for (size_t begin = first_held(left, stages_ - left);
           begin + left <= units_ && run(0, begin) <= in_front; ++begin) {
        first_end = std::max(first_end, begin + 1);
        double& best = value[left][begin];
        for (size_t end = first_end; end <= units_ && run(begin, end) <= most; ++end)
          best = std::min(best, sum(left, begin, end));
      }
    }
    std::vector<int> counts;
    size_t begin = 0;
    for (size_t left = stages_; left > 0; --left) {
      size_t end = begin + 1;
      while (end < units_ && run(begin, end + 1) <= most) ++end;
      while (end > begin + 1 && sum(left, begin, end) != value[left][begin]) --end;
      counts.push_back(static_cast<int>(end - begin));
      begin = end;
    }
    return counts;
  }

 private:
  double run(size_t begin, size_t end) const { return sums_[end] - sums_[begin]; }

  size_t units_;
  size_t stages_;
  std::vector<double> sums_;
};

}  // namespace

std::vector<int> cut_evenly(const std::vector<double>& unit_costs, int stages) {
  if (stages < 1 || static_cast<size_t>(stages) > unit_costs.size()) {
    throw PartitionError(
        fmt::format("{} stages of {} units: each stage holds at least one unit; use fewer ranks or chunks, "
                    "or a deeper model",
                    stages, unit_costs.size()));
  }
  const Runs runs(unit_costs, stages);
  // Sums of the same costs in another order may differ in their last bits.
  return runs.least_squares(runs.least_dearest() * (1 + 1e-12));
}

}  // namespace penstock::planner
