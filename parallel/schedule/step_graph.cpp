#include "parallel/schedule/step_graph.h"

namespace penstock::schedule {

StepGraph::StepGraph(const Schedule& schedule)
    : blocks_(schedule.blocks()), micro_batches_(schedule.all_micro_batches()) {
  const size_t cells = static_cast<size_t>(schedule.stages()) * static_cast<size_t>(micro_batches_);
  forward_.assign(cells, -1);
  input_gradient_.assign(cells, -1);
  weight_gradient_.assign(cells, -1);
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    first_.push_back(size());
    for (const Action& action : schedule.actions[static_cast<size_t>(rank)]) {
      const size_t cell = static_cast<size_t>(action.stage) * static_cast<size_t>(micro_batches_) +
                          static_cast<size_t>(action.micro_batch);
      if (action.op == Op::forward) forward_[cell] = size();
      if (gives_input_gradient(action.op)) input_gradient_[cell] = size();
      if (gives_weight_gradient(action.op)) weight_gradient_[cell] = size();
      actions_.push_back(action);
      ranks_.push_back(rank);
    }
  }
  first_.push_back(size());
}

int StepGraph::source_stage(const Action& action) const {
  const int block = action.stage % blocks_;
  if (action.op == Op::forward) return block > 0 ? action.stage - 1 : -1;
  return gives_input_gradient(action.op) && block < blocks_ - 1 ? action.stage + 1 : -1;
}

int StepGraph::target_stage(const Action& action) const {
  const int block = action.stage % blocks_;
  if (action.op == Op::forward) return block < blocks_ - 1 ? action.stage + 1 : -1;
  return gives_input_gradient(action.op) && block > 0 ? action.stage - 1 : -1;
}

int StepGraph::neighbour(int id, int stage) const {
  if (stage < 0) return -1;
  const Action& mine = action(id);
  return mine.op == Op::forward ? forward(stage, mine.micro_batch) : input_gradient(stage, mine.micro_batch);
}

int StepGraph::producer(int id) const {
  return neighbour(id, source_stage(action(id)));
}

int StepGraph::consumer(int id) const {
  return neighbour(id, target_stage(action(id)));
}

}  // namespace penstock::schedule
