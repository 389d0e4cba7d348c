// Writes one rank's actions and counts the micro-batches of each stage, so that a generator reads like its
// definition.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "parallel/schedule/schedule.h"

namespace penstock::schedule {

class RankWriter {
 public:
  // Every stage takes micro-batches `first` … `first + count − 1`; actions asked for beyond them write
  // nothing.
  RankWriter(Schedule& schedule, int rank)
      : actions_(schedule.actions[static_cast<size_t>(rank)]), count_(schedule.all_micro_batches()) {}

  // The stage's micro-batches, where it does not take all of them (two copies).
  void take(int stage, int first, int count) { lanes_[stage] = {first, first, first, first + count}; }

  // F, B or I of the stage's next micro-batch. I leaves its W pending.
  void forward(int stage) { next(Op::forward, stage, lane(stage).forward); }
  void backward(int stage) {
    // The input half's counter moves with it: a stage may change from B to split I and W.
    Lane& at = lane(stage);
    if (next(Op::backward, stage, at.backward)) ++at.weight;
  }
  void backward_input(int stage) {
    if (next(Op::backward_input, stage, lane(stage).backward)) pending_.push_back(stage);
  }

  // W of the oldest I whose W is pending.
  void backward_weight() {
    if (pending_.empty()) return;
    const int stage = pending_.front();
    pending_.pop_front();
    next(Op::backward_weight, stage, lane(stage).weight);
  }
  // W of one stage's oldest pending micro-batch, whatever the other stages have pending.
  void backward_weight_of(int stage) {
    Lane& at = lane(stage);
    if (at.weight < at.backward) next(Op::backward_weight, stage, at.weight);
  }

  // F of one stage together with B of another, as one action where the device can.
  void forward_and_backward(int forward_stage, int backward_stage) {
    const size_t before = actions_.size();
    forward(forward_stage);
    const bool wrote = actions_.size() > before;
    backward(backward_stage);
    if (wrote && actions_.size() == before + 2) actions_[before].paired = true;
  }

  int forwards(int stage) { return lane(stage).forward; }
  int backwards(int stage) { return lane(stage).backward; }
  int weights(int stage) { return lane(stage).weight; }
  bool forward_remains(int stage) { return lane(stage).forward < lane(stage).end; }
  bool backward_remains(int stage) { return lane(stage).backward < lane(stage).end; }
  bool weight_pending() const { return !pending_.empty(); }

 private:
  // The next micro-batch of each op, and the end of the range.
  struct Lane {
    int forward = 0;
    int backward = 0;
    int weight = 0;
    int end = 0;
  };

  Lane& lane(int stage) { return lanes_.try_emplace(stage, Lane{0, 0, 0, count_}).first->second; }

  bool next(Op op, int stage, int& micro_batch) {
    if (micro_batch >= lane(stage).end) return false;
    actions_.push_back({op, stage, micro_batch++});
    return true;
  }

  std::vector<Action>& actions_;
  int count_;
  std::map<int, Lane> lanes_;
  std::deque<int> pending_;
};

}  // namespace penstock::schedule
