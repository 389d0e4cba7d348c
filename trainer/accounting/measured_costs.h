#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/schedule/costs.h"
#include "parallel/schedule/program.h"
#include "trainer/accounting/rank_times.h"

namespace penstock::accounting {

/// What a pipeline's actions and messages cost, as its own steps show: medians over the micro-batches of a
/// few steps. A message's cost is the time from when both its ends were ready until it had arrived; it is
/// taken as occupying its link.
class MeasuredCosts {
 public:
  /// Room for `steps` steps is made at once. `program` outlives it.
  MeasuredCosts(const schedule::Program& program, size_t steps);

  /// A step of all ranks of the pipeline.
  void add(std::span<const RankTimes> ranks);
  size_t steps() const { return added_; }
  /// UsageError before the first step.
  schedule::Costs costs() const;

 private:
  struct Samples {
    std::vector<double> forward, input, weight, reduction;
  };
  struct Message {
    size_t source = 0, destination = 0;  ///< ranks
    size_t send = 0, receive = 0;        ///< in their lists
  };

  void add_rank(const RankTimes& times, size_t rank);

  const schedule::Program* program_;
  std::vector<Samples> stages_;
  std::vector<Message> messages_;
  std::vector<std::vector<double>> links_;  ///< (P · P)
  std::vector<double> gradient_end_;        ///< by stage: the end of its latest I or W
  std::vector<double> optimizer_, tied_;
  double tied_ready_ = 0, tied_end_ = 0;  ///< of the step
  /// Of a block's two copies in the step: when the later one's gradients were there, when both were reduced.
  struct Both {
    double ready = 0;
    double end = 0;
  };
  std::vector<Both> both_;  ///< (S); none where there is one copy
  size_t added_ = 0;
};

}  // namespace penstock::accounting
