#pragma once

#include <span>
#include <vector>

#include "parallel/schedule/costs.h"
#include "parallel/schedule/program.h"
#include "trainer/replay/replay_run.h"

namespace penstock::bench {

/// Steps of a run, with what the simulator needs measured in them.
class Measured {
 public:
  explicit Measured(const schedule::Program& program) : program_(program) {}

  void add(std::span<const replay::RankStep> ranks);
  /// Median seconds of the actions of each stage, and of the messages of each link from when both ends were
  /// posted; optimizer steps cost nothing. A whole backward counts as its input half.
  schedule::Costs costs() const;
  /// Medians over the steps, from the first action to the last.
  double makespan() const;
  double bubble() const;
  /// Median over the steps of the seconds during which the rank's send and receive lanes both carried a
  /// message.
  double both_ways(int rank) const;

 private:
  const schedule::Program& program_;
  std::vector<std::vector<replay::RankStep>> steps_;
};

double median(std::vector<double> values);

}  // namespace penstock::bench
