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
        tail_(static_cast<size_t>(schedule.stages())),
        parts_(tail_.size()) {}

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
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      tail_[static_cast<size_t>(stage)].reset();
      parts_[static_cast<size_t>(stage)].clear();
    }
    if (options_.reduce_gradients && options_.reduce_every > 0) add_partial_reductions(step);
    if (schedule_.copies == 2) {
      for (int block = 0; block < S; ++block) {
        Collective& made =
            add_pair(InstructionKind::reduce_gradients, block, S + block, step, reduction(block));
        made.here.last = true;
        if (made.there) made.there->last = true;
      }
    } else if (options_.reduce_gradients) {
      for (int stage = 0; stage < schedule_.stages(); ++stage) {
        Collective& made = add_single(InstructionKind::reduce_gradients, stage, step, reduction(stage));
        made.here.last = true;
        const std::vector<size_t>& before = parts_[static_cast<size_t>(stage)];
        made.after.insert(made.after.end(), before.begin(), before.end());
      }
    }
    if (options_.tied_embeddings) {
      for (int copy = 0; copy < schedule_.copies; ++copy) {
        const int first = copy * S;
        const int last = tied_head(schedule_, copy);
        if (last != first) add_pair(InstructionKind::sum_tied, first, last, step, costs_.tied_sum);
        if (last == first)
          add_single(InstructionKind::sum_tied, copy, step, costs_.tied_sum).here.peer = owner(copy);
      }
    }
    std::optional<size_t> agreement;
    if (schedule_.asynchronous) agreement = add_agreement(step);
    std::vector<size_t> optimizers;
    for (int rank = 0; rank < schedule_.ranks; ++rank) add_optimizer(rank, step, agreement, optimizers);
    if (options_.sharded_optimizer) add_gathers(step, optimizers);
  }

  // Where one step ends before the next begins, all ranks agree in their optimizers before anything is
  // gathered. Both copies of a block are gathered by both of its ranks at once.
  void add_gathers(int step, const std::vector<size_t>& optimizers) {
    const auto add = [&](int stage, int other) {
      Collective& gather = start(InstructionKind::gather_parameters, stage, step,
                                 Costs::of_block(costs_.parameter_gather, schedule_.block_of(stage)));
      gather.after = optimizers;
      if (schedule_.steps > 1) gather.after = {optimizers[static_cast<size_t>(owner(stage))]};
      if (other < 0) return;
      gather.here.peer = owner(other);
      gather.there = gather.here;
      gather.there->peer = owner(stage);
      gather.there->action.stage = other;
    };
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      const int other = schedule_.copies == 2 ? (stage + schedule_.blocks()) % schedule_.stages() : -1;
      const bool meets = other >= 0 && owner(other) != owner(stage);
      if (!meets || stage < other) add(stage, meets ? other : -1);
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

  Collective& add_pair(InstructionKind kind, int stage, int other, int step, double cost) {
    Collective& made = start(kind, stage, step, cost);
    chain(made, stage, step);
    chain(made, other, step);
    made.here.peer = owner(other);
    if (owner(other) == owner(stage)) return made;
    made.there = made.here;
    made.there->peer = owner(stage);
    made.there->action.stage = other;
    return made;
  }

  // Sums over the replicas while the step still runs: of every window of a stage but the last, by halves.
  void add_partial_reductions(int step) {
    const auto every = static_cast<size_t>(options_.reduce_every);
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      std::vector<int> micro_batches;
      for (int m = step * schedule_.micro_batches; m < (step + 1) * schedule_.micro_batches; ++m) {
        if (graph_.weight_gradient(stage, m) >= 0) micro_batches.push_back(m);
      }
      for (const Op half : {Op::backward_input, Op::backward_weight}) {
        const auto action = [&](size_t place) {
          const int m = micro_batches[place];
          return half == Op::backward_input ? graph_.input_gradient(stage, m)
                                            : graph_.weight_gradient(stage, m);
        };
        std::optional<size_t> previous;
        for (size_t next = every; next < micro_batches.size(); next += every) {
          Collective& made = start(InstructionKind::reduce_gradients, stage, step, reduction(stage) / 2);
          made.here.action = {half, stage, micro_batches[next - 1]};
          made.after_actions.push_back(action(next - 1));
          if (previous) made.after.push_back(*previous);
          if (next + every < micro_batches.size()) made.before_actions.push_back(action(next + every));
          previous = plan_.size() - 1;
        }
        if (previous) parts_[static_cast<size_t>(stage)].push_back(*previous);
      }
    }
  }

  size_t add_agreement(int step) {
    Collective& made = plan_.emplace_back();
    made.everywhere = true;
    made.here.kind = InstructionKind::agree;
    made.here.step = step;
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      const std::optional<size_t>& tail = tail_[static_cast<size_t>(stage)];
      if (tail) made.after.push_back(*tail);
      if (last(stage, step) >= 0) made.after_actions.push_back(last(stage, step));
    }
    return plan_.size() - 1;
  }

  // Late: until then the sums of other ranks may arrive.
  void put_before_its_readers(Collective& made, int rank, int step) {
    int first = graph_.first(rank + 1);
    for (const int stage : owned_[static_cast<size_t>(rank)]) {
      if (step + 2 >= schedule_.steps) break;
      const int reader = graph_.forward(stage, (step + 2) * schedule_.micro_batches);
      if (reader >= 0) first = std::min(first, reader);
    }
    if (first < graph_.first(rank + 1)) made.before_actions.push_back(first);
    if (first > graph_.first(rank)) made.put_behind = first - 1;
  }

  void add_optimizer(int rank, int step, std::optional<size_t> agreement, std::vector<size_t>& optimizers) {
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
    if (agreement) {
      made.after.push_back(*agreement);
      put_before_its_readers(made, rank, step);
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
  // By stage: the last partial reduction of each half.
  std::vector<std::vector<size_t>> parts_;
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
