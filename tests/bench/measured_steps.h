#pragma once

#include <span>
#include <vector>

#include "parallel/schedule/costs.h"
#include "parallel/schedule/program.h"
#include "trainer/accounting/measured_costs.h"
#include "trainer/replay/replay_run.h"

namespace penstock::bench {

/// Steps of a run, with what the simulator needs measured in them.
class MeasuredSteps {
 public:
  MeasuredSteps(const schedule::Program& program, size_t steps) : program_(program), costs_(program, steps) {}

  void add(std::span<const replay::RankStep> ranks);
  schedule::Costs costs() const { return costs_.costs(); }
  /// Medians over the steps, from the first action to the last.
  double makespan() const;
  double bubble() const;
  /// Median over the steps of the seconds during which the rank's send and receive lanes both carried a
  /// message.
  double both_ways(int rank) const;

 private:
  const schedule::Program& program_;
  accounting::MeasuredCosts costs_;
  std::vector<std::vector<replay::RankStep>> steps_;
};

}  // namespace penstock::bench
