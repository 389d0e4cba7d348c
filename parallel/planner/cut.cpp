#include "parallel/planner/cut.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace penstock::planner {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// Dynamic programming over (stages, units): `join(rest, run)` is the value of a cut whose first run costs
// `run` and whose rest is worth `rest`. Values of the suffixes: value[stages][first unit].
class Suffixes {
 public:
  Suffixes(const std::vector<double>& costs, int stages) : units_(costs.size()), stages_(stages) {
    sums_.assign(units_ + 1, 0);
    for (size_t unit = 0; unit < units_; ++unit) sums_[unit + 1] = sums_[unit] + costs[unit];
  }

  double run(size_t begin, size_t end) const { return sums_[end] - sums_[begin]; }

  template <class Join>
  void solve(Join join) {
    value_.assign(static_cast<size_t>(stages_) + 1, std::vector<double>(units_ + 1, never));
    value_[0][units_] = 0;
    for (size_t left = 1; left < value_.size(); ++left) {
      for (size_t begin = 0; begin < units_; ++begin) {
        for (size_t end = begin + 1; end <= units_; ++end)
          value_[left][begin] = std::min(value_[left][begin], join(value_[left - 1][end], run(begin, end)));
      }
    }
  }

  double best() const { return value_.back()[0]; }

  template <class Join>
  std::vector<int> cut(Join join) const {
    std::vector<int> counts;
    size_t begin = 0;
    for (size_t left = value_.size() - 1; left > 0; --left) {
      size_t end = units_;
      while (end > begin + 1 && join(value_[left - 1][end], run(begin, end)) != value_[left][begin]) --end;
      counts.push_back(static_cast<int>(end - begin));
      begin = end;
    }
    return counts;
  }

 private:
  size_t units_;
  int stages_;
  std::vector<double> sums_;
  std::vector<std::vector<double>> value_;
};

}  // namespace

std::vector<int> cut_evenly(const std::vector<double>& unit_costs, int stages) {
  if (stages < 1 || static_cast<size_t>(stages) > unit_costs.size()) {
    throw PartitionError(
        fmt::format("{} stages of {} units: each stage holds at least one unit; use fewer ranks or chunks, "
                    "or a deeper model",
                    stages, unit_costs.size()));
  }
  Suffixes suffixes(unit_costs, stages);
  suffixes.solve([](double rest, double run) { return std::max(rest, run); });
  // Sums of the same costs in another order may differ in their last bits.
  const double most = suffixes.best() * (1 + 1e-12);
  const auto squares = [most](double rest, double run) { return run > most ? never : rest + run * run; };
  suffixes.solve(squares);
  return suffixes.cut(squares);
}

}  // namespace penstock::planner
