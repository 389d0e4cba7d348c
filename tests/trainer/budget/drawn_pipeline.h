// A pipeline in virtual time without its executor: every action's time is drawn as a replay draws it, and
// starts when its rank is free and its input there. For messages that take no time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/runtime/replay_times.h"
#include "parallel/schedule/program.h"
#include "trainer/budget/observation.h"

namespace penstock::budget {

/// What the costs really are, whatever a controller believes.
struct Truth {
  planner::Machine machine;
  std::vector<planner::Workload> workloads;
  std::vector<runtime::Disturbance> disturbances;
  runtime::Noise noise;
};

class DrawnPipeline {
 public:
  DrawnPipeline(const Arrangement& arrangement, const Truth& truth);

  /// The next step that is run, in order.
  StepObservation draw(int64_t step);

  const schedule::Program& program() const { return program_; }
  const runtime::ReplayTimes& times() const { return *times_; }
  const SimulatedArrangement& arrangement() const { return simulated_; }

 private:
  struct Node {
    schedule::Action action;
    int rank = 0;
    int producer = -1;
  };

  void order_actions();

  SimulatedArrangement simulated_;
  schedule::Program program_;
  std::optional<runtime::ReplayTimes> times_;
  std::vector<Node> nodes_;  ///< in an order that fits
  std::vector<double> ends_;
  /// By rank: when it is ready for the next step, against the end of the last one on the slowest rank.
  std::vector<double> begins_;
};

}  // namespace penstock::budget
