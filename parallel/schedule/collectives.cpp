#include "parallel/schedule/collectives.h"

#include <algorithm>

namespace penstock::schedule {

namespace {

class Plan {
 public:
  Plan(const Schedule& schedule, const StepGraph& graph, const Costs& costs, const LoweringOptions& options)
      : schedule_(schedule),
        graph_(graph),
        costs_(costs),
        options_(options),
        last_(last_weight_gradients(schedule, graph)),
        owned_(schedule.stages_by_rank()),
        tail_(static_cast<size_t>(schedule.stages())) {}

  std::vector<Collective> run() {
    for (int step = 0; step < schedule_.steps; ++step) add_step(step);
    return std::move(plan_);
  }

 private:
  int owner(int stage) const { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; }
  int last(int stage, int step) const {
    return last_[static_cast<size_t>(stage) * static_cast<size_t>(schedule_.steps) +
                 static_cast<size_t>(step)];
  }

  double reduction(int stage) const {
    return Costs::of_block(costs_.gradient_reduction, schedule_.block_of(stage));
  }

  void add_step(int step) {
    const int S = schedule_.blocks();
    for (int stage = 0; stage < schedule_.stages(); ++stage) tail_[static_cast<size_t>(stage)].reset();
    if (options_.reduce_gradients && options_.reduce_every > 0) add_partial_reductions(step);
    if (schedule_.copies == 2) {
      for (int block = 0; block < S; ++block) {
        add_pair(InstructionKind::sum_copies, block, S + block, step, costs_.copies_sum);
      }
    }
    if (options_.reduce_gradients) {
      for (int stage = 0; stage < schedule_.stages(); ++stage) {
        add_single(InstructionKind::reduce_gradients, stage, step, reduction(stage)).here.last = true;
      }
    }
    if (options_.tied_embeddings) {
      for (int copy = 0; copy < schedule_.copies; ++copy) {
        if (S > 1) add_pair(InstructionKind::sum_tied, copy * S, copy * S + S - 1, step, costs_.tied_sum);
        if (S == 1)
          add_single(InstructionKind::sum_tied, copy, step, costs_.tied_sum).here.peer = owner(copy);
      }
    }
    std::vector<size_t> optimizers;
    for (int rank = 0; rank < schedule_.ranks; ++rank) add_optimizer(rank, step, optimizers);
    if (!options_.sharded_optimizer) return;
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      Collective& gather = start(InstructionKind::gather_parameters, stage, step,
                                 Costs::of_block(costs_.parameter_gather, schedule_.block_of(stage)));
      gather.after.push_back(optimizers[static_cast<size_t>(owner(stage))]);
    }
  }

  Collective& start(InstructionKind kind, int stage, int step, double cost) {
    Collective& made = plan_.emplace_back();
    made.rank = owner(stage);
    made.cost = cost;
    made.here.kind = kind;
    made.here.action = {Op::backward_weight, stage, 0};
    made.here.step = step;
    return made;
  }

  // `made` comes after what the stage had so far, and what follows on the stage comes after it.
  void chain(Collective& made, int stage, int step) {
    std::optional<size_t>& tail = tail_[static_cast<size_t>(stage)];
    if (tail) {
      made.after.push_back(*tail);
    } else if (last(stage, step) >= 0) {
      made.after_actions.push_back(last(stage, step));
    }
    tail = plan_.size() - 1;
  }

  Collective& add_single(InstructionKind kind, int stage, int step, double cost) {
    Collective& made = start(kind, stage, step, cost);
    chain(made, stage, step);
    return made;
  }

  void add_pair(InstructionKind kind, int stage, int other, int step, double cost) {
    Collective& made = start(kind, stage, step, cost);
    chain(made, stage, step);
    chain(made, other, step);
    made.here.peer = owner(other);
    if (owner(other) == owner(stage)) return;
    made.there = made.here;
    made.there->peer = owner(stage);
    made.there->action.stage = other;
  }

  // Sums over the replicas while the step still runs, every `reduce_every` micro-batches of a stage but the
  // last.
  void add_partial_reductions(int step) {
    const int M = schedule_.micro_batches;
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      int count = 0;
      for (int m = step * M; m < (step + 1) * M; ++m) {
        const int id = graph_.weight_gradient(stage, m);
        if (id < 0 || ++count % options_.reduce_every != 0 || id == last(stage, step)) continue;
        Collective& made = start(InstructionKind::reduce_gradients, stage, step, reduction(stage));
        made.after_actions.push_back(id);
      }
    }
  }

  void add_optimizer(int rank, int step, std::vector<size_t>& optimizers) {
    Collective& made = plan_.emplace_back();
    made.rank = rank;
    made.cost = costs_.optimizer_step;
    made.here.kind = InstructionKind::optimizer_step;
    made.here.step = step;
    for (const int stage : owned_[static_cast<size_t>(rank)]) {
      const std::optional<size_t>& tail = tail_[static_cast<size_t>(stage)];
      if (tail) made.after.push_back(*tail);
      if (last(stage, step) >= 0) made.after_actions.push_back(last(stage, step));
    }
    optimizers.push_back(plan_.size() - 1);
  }

  const Schedule& schedule_;
  const StepGraph& graph_;
  const Costs& costs_;
  const LoweringOptions& options_;
  std::vector<int> last_;
  std::vector<std::vector<int>> owned_;
  // By stage: the last collective on its gradients so far.
  std::vector<std::optional<size_t>> tail_;
  std::vector<Collective> plan_;
};

}  // namespace

std::vector<int> last_weight_gradients(const Schedule& schedule, const StepGraph& graph) {
  std::vector<int> last;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    for (int step = 0; step < schedule.steps; ++step) {
      int latest = -1;
      for (int m = step * schedule.micro_batches; m < (step + 1) * schedule.micro_batches; ++m) {
        latest = std::max(latest, graph.weight_gradient(stage, m));
      }
      last.push_back(latest);
    }
  }
  return last;
}

std::vector<Collective> plan_collectives(const Schedule& schedule, const StepGraph& graph, const Costs& costs,
                                         const LoweringOptions& options) {
  return Plan(schedule, graph, costs, options).run();
}

}  // namespace penstock::schedule
