// Which action needs which: the dependencies of a schedule, with every action numbered.
#pragma once

#include <vector>

#include "parallel/schedule/schedule.h"

namespace penstock::schedule {

// Actions are numbered rank by rank, in the rank's order. −1 stands for "none".
class StepGraph {
 public:
  explicit StepGraph(const Schedule& schedule);

  int size() const { return static_cast<int>(actions_.size()); }
  const Action& action(int id) const { return actions_[static_cast<size_t>(id)]; }
  int rank(int id) const { return ranks_[static_cast<size_t>(id)]; }
  // The number of a rank's first action; first(P) = size().
  int first(int rank) const { return first_[static_cast<size_t>(rank)]; }
  int position(int id) const { return id - first(rank(id)); }

  // The F, the input-gradient action (I or B) and the weight-gradient action (W or B) of a stage and
  // micro-batch.
  int forward(int stage, int micro_batch) const { return at(forward_, stage, micro_batch); }
  int input_gradient(int stage, int micro_batch) const { return at(input_gradient_, stage, micro_batch); }
  int weight_gradient(int stage, int micro_batch) const { return at(weight_gradient_, stage, micro_batch); }

  // The stage whose output the action reads, and the stage that reads its output: the neighbour in the model,
  // −1 at its ends and for W.
  int source_stage(const Action& action) const;
  int target_stage(const Action& action) const;
  // The same as actions. Those on the same rank count too.
  int producer(int id) const;
  int consumer(int id) const;

 private:
  int at(const std::vector<int>& table, int stage, int micro_batch) const {
    return table[static_cast<size_t>(stage) * static_cast<size_t>(micro_batches_) +
                 static_cast<size_t>(micro_batch)];
  }
  int neighbour(int id, int stage) const;

  int blocks_;
  int micro_batches_;
  std::vector<Action> actions_;
  std::vector<int> ranks_;
  std::vector<int> first_;
  std::vector<int> forward_;
  std::vector<int> input_gradient_;
  std::vector<int> weight_gradient_;
};

}  // namespace penstock::schedule
