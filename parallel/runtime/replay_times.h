#pragma once

#include <cstdint>
#include <vector>

#include "parallel/runtime/disturbance.h"
#include "parallel/schedule/costs.h"
#include "parallel/schedule/program.h"

namespace penstock::runtime {

/// Random variation of times: factors with mean 1, log-normal, so that a time stays above 0.
struct Noise {
  double action_sigma = 0;  ///< of every action, independent
  double rank_sigma = 0;    ///< of all that a rank computes in a step
  /// Of a rank's factors in consecutive steps, 0 … 0.999: a correlation c falls to c^k after k steps.
  double correlation = 0;
  uint64_t seed = 1;

  bool operator==(const Noise&) const = default;
};

/// How long everything takes in a replay, in seconds: costs, disturbed, with noise. Random numbers are keyed
/// by seed, step, rank and action: a time is a pure function of these, whatever was asked before.
class ReplayTimes {
 public:
  /// `costs` in seconds; they fit the program. schedule::ScheduleError, DisturbanceError or UsageError for
  /// what does not.
  ReplayTimes(const schedule::Program& program, schedule::Costs costs,
              std::vector<Disturbance> disturbances = {}, const Noise& noise = {});

  const schedule::Costs& costs() const { return costs_; }

  /// By which all that a rank computes in a step is to be multiplied.
  double rank_factor(uint64_t step, int rank) const;
  /// Of `op`, which is not a whole backward; times rank_factor().
  double action(uint64_t step, int stage, schedule::Op op, int micro_batch) const;
  /// By which a rank's host is late with every action.
  double host(uint64_t step, int rank) const;
  /// By which a rank's data is late.
  double data(uint64_t step, int rank) const;
  bool disturbs_links() const;
  /// What a message of the step pays beside the link's own costs.
  double link(uint64_t step, int source, int destination) const;
  /// Of all ranks, before the step; `kind`: evaluation or checkpoint.
  double pause(uint64_t step, Disturbance::Kind kind) const;

 private:
  double sum(uint64_t step, Disturbance::Kind kind, int from, int to = 0) const;
  /// Standard normal.
  double draw(uint64_t step, uint32_t a, uint32_t b) const;

  schedule::Costs costs_;
  std::vector<Disturbance> disturbances_;
  Noise noise_;
  std::vector<double> memory_;  ///< weights of the draws of this step, the one before, …
};

}  // namespace penstock::runtime
