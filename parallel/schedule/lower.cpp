// Lowering: the step's whole graph (actions, transfers, collectives) is run in simulated time, and every node
// is appended to its ranks' lists when it starts. Starts are a topological order of the graph, buffer reuse
// included, so the lists cannot deadlock: the earliest node that has not run has everything it needs before
// it in every queue.
#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "parallel/schedule/collectives.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/step_graph.h"
#include "parallel/schedule/validate.h"

namespace penstock::schedule {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// Numbers that are reused once free; the lowest free one first, so that as many are made as are in use at
// once.
class Numbers {
 public:
  // A number that is free at `now`; it stays taken until free_from() says otherwise.
  int take(double now) {
    size_t index = 0;
    while (index < free_from_.size() && free_from_[index] > now) ++index;
    return take_at(index);
  }
  // The number that has been free longest, if another one stays free.
  int take_in_turn(double now) {
    const auto free =
        std::count_if(free_from_.begin(), free_from_.end(), [&](double at) { return at <= now; });
    const auto oldest = std::min_element(free_from_.begin(), free_from_.end());
    return take_at(free > 1 ? static_cast<size_t>(oldest - free_from_.begin()) : free_from_.size());
  }
  void free_from(int index, double time) { free_from_[static_cast<size_t>(index)] = time; }
  int count() const { return static_cast<int>(free_from_.size()); }

 private:
  int take_at(size_t index) {
    if (index == free_from_.size()) free_from_.push_back(never);
    free_from_[index] = never;
    return static_cast<int>(index);
  }

  std::vector<double> free_from_;
};

class Lowering {
 public:
  Lowering(const Schedule& schedule, const Costs& costs, const LoweringOptions& options)
      : schedule_(schedule),
        costs_(costs),
        options_(options),
        graph_(schedule),
        count_(graph_.size()),
        collectives_(plan_collectives(schedule, graph_, costs, options)),
        last_weight_(last_weight_gradients(schedule, graph_)) {
    const size_t nodes = collective_node(collectives_.size());
    pending_.assign(nodes, 0);
    ready_.assign(nodes, 0);
    output_.resize(static_cast<size_t>(count_));
    received_.resize(static_cast<size_t>(count_));
    slot_of_.assign(
        static_cast<size_t>(schedule.stages()) * static_cast<size_t>(schedule.all_micro_batches()), -1);
    weight_slot_of_ = slot_of_;
    slots_.resize(static_cast<size_t>(schedule.stages()));
    weight_slots_.resize(slots_.size());
    pools_.resize(static_cast<size_t>(schedule.ranks));
    program_.schedule = schedule;
    program_.options = options;
    program_.ranks.resize(static_cast<size_t>(schedule.ranks));
    count_pending();
  }

  // Makes the program; returns when the last node ends.
  double run() {
    for (size_t node = 0; node < pending_.size(); ++node) {
      if (exists(node) && pending_[node] == 0) push(node);
    }
    double end = 0;
    while (!open_.empty()) {
      const Entry entry = open_.top();
      open_.pop();
      const auto computes = static_cast<size_t>(count_);
      if (entry.node < computes) {
        end = std::max(end, start_compute(static_cast<int>(entry.node), entry.time));
      } else if (entry.node < 2 * computes) {
        end = std::max(end, start_transfer(static_cast<int>(entry.node - computes), entry.time));
      } else {
        end = std::max(end, start_collective(entry.node - 2 * computes, entry.time));
      }
    }
    return end;
  }

  Program take() {
    for (size_t stage = 0; stage < slots_.size(); ++stage) {
      program_.slots.push_back(slots_[stage].count());
      program_.weight_slots.push_back(weight_slots_[stage].count());
    }
    for (size_t rank = 0; rank < pools_.size(); ++rank) {
      for (size_t pool = 0; pool < buffer_pools; ++pool)
        program_.ranks[rank].buffers[pool] = pools_[rank][pool].count();
    }
    if (schedule_.steps == 1) optimizer_last();
    return std::move(program_);
  }

 private:
  // Ranks agree before they update (norm, vote): a host that blocks in every call must have sent everything
  // that others still need. What is gathered comes after it on all ranks, and last in the global order.
  void optimizer_last() {
    for (RankProgram& rank : program_.ranks) {
      std::stable_partition(rank.instructions.begin(), rank.instructions.end(), [](const Instruction& each) {
        return each.kind != InstructionKind::optimizer_step &&
               each.kind != InstructionKind::gather_parameters;
      });
    }
  }

  // A node that may start: the earliest first, then by kind, source, destination, micro-batch.
  enum Kind : std::uint8_t { transfer, collective, compute };
  struct Entry {
    double time;
    Kind kind;
    int source;
    int destination;
    int micro_batch;
    size_t node;
    bool operator<(const Entry& other) const {
      return std::tie(other.time, other.kind, other.source, other.destination, other.micro_batch,
                      other.node) < std::tie(time, kind, source, destination, micro_batch, node);
    }
  };

  size_t transfer_node(int consumer) const {
    return static_cast<size_t>(count_) + static_cast<size_t>(consumer);
  }
  size_t collective_node(size_t index) const { return 2 * static_cast<size_t>(count_) + index; }
  int owner(int stage) const { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; }
  bool remote(int producer, int consumer) const { return graph_.rank(producer) != graph_.rank(consumer); }

  // The first half of a pair that runs as one action; the second is started with it.
  bool fused(int id) const { return options_.fuse_pairs && graph_.action(id).paired; }
  bool is_second(int id) const { return graph_.position(id) > 0 && fused(id - 1); }

  // The action that stands for `id`: itself, or the first half of its pair.
  int head_of(int id) const { return is_second(id) ? id - 1 : id; }

  bool exists(size_t node) const {
    if (node < static_cast<size_t>(count_)) return !is_second(static_cast<int>(node));
    if (node >= 2 * static_cast<size_t>(count_)) return true;
    const int consumer = static_cast<int>(node) - count_;
    const int producer = graph_.producer(consumer);
    return producer >= 0 && remote(producer, consumer);
  }

  // The action whose end allows the receive for `consumer` to be posted; −1 if it may be posted at once.
  int posted_after(int consumer) const {
    const int head = head_of(consumer);
    const long position = static_cast<long>(graph_.position(head)) - 1 - options_.receive_lead;
    return position < 0 ? -1 : graph_.first(graph_.rank(head)) + static_cast<int>(position);
  }

  void count_pending() {
    for (int id = 0; id < count_; ++id) {
      const int head = head_of(id);
      if (head == id && graph_.position(id) > 0) ++pending_[static_cast<size_t>(id)];
      const int producer = graph_.producer(id);
      if (producer < 0 || !remote(producer, id)) continue;
      ++pending_[static_cast<size_t>(head)];
      pending_[transfer_node(id)] = posted_after(id) < 0 ? 1 : 2;
    }
    for (size_t index = 0; index < collectives_.size(); ++index) {
      const Collective& at = collectives_[index];
      for (const int id : at.after_actions) after_action_[id].push_back(collective_node(index));
      for (const size_t other : at.after) after_collective_[other].push_back(collective_node(index));
      if (at.put_behind >= 0) after_action_[at.put_behind].push_back(collective_node(index));
      pending_[collective_node(index)] =
          static_cast<int>(at.after_actions.size() + at.after.size()) + (at.put_behind >= 0 ? 1 : 0);
      for (const int id : at.before_actions) ++pending_[static_cast<size_t>(head_of(id))];
    }
  }

  void push(size_t node) {
    const double time = ready_[node];
    if (node < static_cast<size_t>(count_)) {
      const int id = static_cast<int>(node);
      open_.push({time, compute, graph_.rank(id), graph_.rank(id), graph_.action(id).micro_batch, node});
    } else if (node < 2 * static_cast<size_t>(count_)) {
      const int consumer = static_cast<int>(node) - count_;
      open_.push({time, transfer, graph_.rank(graph_.producer(consumer)), graph_.rank(consumer),
                  graph_.action(consumer).micro_batch, node});
    } else {
      const Collective& at = collectives_[node - 2 * static_cast<size_t>(count_)];
      open_.push({time, collective, at.rank, at.here.peer, schedule_.all_micro_batches(), node});
    }
  }

  void release(size_t node, double time) {
    ready_[node] = std::max(ready_[node], time);
    if (--pending_[node] == 0) push(node);
  }

  double start_compute(int id, double now) {
    const int second = fused(id) ? id + 1 : id;
    double end = now;
    for (int each = id; each <= second; ++each) end += costs_.of(graph_.action(each));
    for (int each = id; each <= second; ++each) write_compute(each, now, end);
    for (int each = id; each <= second; ++each) {
      const int consumer = graph_.consumer(each);
      if (consumer >= 0 && remote(each, consumer)) release(transfer_node(consumer), end);
      const auto triggered = after_action_.find(each);
      if (triggered == after_action_.end()) continue;
      for (const size_t node : triggered->second) release(node, end);
    }
    const int next = second + 1;
    if (next < graph_.first(graph_.rank(id) + 1)) release(static_cast<size_t>(next), end);
    // Receives that were waiting for their turn to be posted.
    for (int each = id; each <= second; ++each) {
      const long far = static_cast<long>(each) + 1 + options_.receive_lead;
      for (long consumer = far; consumer <= far + 1 && consumer < graph_.first(graph_.rank(id) + 1);
           ++consumer) {
        const int at = static_cast<int>(consumer);
        if (posted_after(at) == each && exists(transfer_node(at))) release(transfer_node(at), end);
      }
    }
    return end;
  }

  void write_compute(int id, double now, double end) {
    const Action& action = graph_.action(id);
    const int rank = graph_.rank(id);
    auto& pools = pools_[static_cast<size_t>(rank)];
    Instruction instruction;
    instruction.action = action;
    instruction.step = action.micro_batch / schedule_.micro_batches;
    const int producer = graph_.producer(id);
    if (producer >= 0) {
      instruction.input =
          remote(producer, id) ? received_[static_cast<size_t>(id)] : output_[static_cast<size_t>(producer)];
    }
    if (graph_.consumer(id) >= 0) {
      const BufferPool pool =
          action.op == Op::forward ? BufferPool::activation_out : BufferPool::gradient_out;
      // In turn: costs are estimates, and a message that takes longer must not hold up the next action.
      instruction.output = {pool, pools[static_cast<size_t>(pool)].take_in_turn(now)};
      output_[static_cast<size_t>(id)] = instruction.output;
    }
    // Not before the output is taken: an action that costs nothing would overwrite its own input.
    if (producer >= 0) {
      pools[static_cast<size_t>(instruction.input.pool)].free_from(instruction.input.index, end);
    }
    const auto stage = static_cast<size_t>(action.stage);
    const size_t cell =
        stage * static_cast<size_t>(schedule_.all_micro_batches()) + static_cast<size_t>(action.micro_batch);
    if (action.op == Op::forward) {
      instruction.slot = slot_of_[cell] = slots_[stage].take(0);
    } else if (gives_input_gradient(action.op)) {
      instruction.slot = slot_of_[cell];
      slots_[stage].free_from(instruction.slot, 0);
      if (action.op == Op::backward_input) {
        instruction.weight_slot = weight_slot_of_[cell] = weight_slots_[stage].take(0);
      }
    } else {
      instruction.weight_slot = weight_slot_of_[cell];
      weight_slots_[stage].free_from(instruction.weight_slot, 0);
    }
    instruction.last =
        gives_weight_gradient(action.op) &&
        last_weight_[stage * static_cast<size_t>(schedule_.steps) + static_cast<size_t>(instruction.step)] ==
            id;
    program_.ranks[static_cast<size_t>(rank)].instructions.push_back(instruction);
  }

  double start_transfer(int consumer, double now) {
    const int producer = graph_.producer(consumer);
    const int source = graph_.rank(producer);
    const int destination = graph_.rank(consumer);
    const Link& link = costs_.link(source, destination, schedule_.ranks);
    const Buffer from = output_[static_cast<size_t>(producer)];
    const BufferPool pool =
        graph_.action(producer).op == Op::forward ? BufferPool::activation_in : BufferPool::gradient_in;
    const Buffer to{pool, pools_[static_cast<size_t>(destination)][static_cast<size_t>(pool)].take(now)};
    received_[static_cast<size_t>(consumer)] = to;
    pools_[static_cast<size_t>(source)][static_cast<size_t>(from.pool)].free_from(from.index,
                                                                                  now + link.occupancy);

    Instruction message;
    message.action = graph_.action(producer);
    message.action.paired = false;
    message.order = program_.orders++;
    message.step = message.action.micro_batch / schedule_.micro_batches;
    message.kind = InstructionKind::send;
    message.peer = destination;
    message.input = from;
    program_.ranks[static_cast<size_t>(source)].instructions.push_back(message);
    message.kind = InstructionKind::receive;
    message.peer = source;
    message.input = {};
    message.output = to;
    program_.ranks[static_cast<size_t>(destination)].instructions.push_back(message);
    const double end = now + link.occupancy + link.latency;
    release(static_cast<size_t>(head_of(consumer)), end);
    return end;
  }

  double start_collective(size_t index, double now) {
    Collective& at = collectives_[index];
    const bool over_replicas = at.here.kind == InstructionKind::reduce_gradients ||
                               at.here.kind == InstructionKind::gather_parameters;
    if (over_replicas || at.there || at.everywhere) at.here.order = program_.orders++;
    if (at.everywhere) return start_everywhere(at, index, now);
    program_.ranks[static_cast<size_t>(at.rank)].instructions.push_back(at.here);
    if (at.there) {
      at.there->order = at.here.order;
      program_.ranks[static_cast<size_t>(at.here.peer)].instructions.push_back(*at.there);
    }
    const double end = now + at.cost;
    for (const size_t node : after_collective_[index]) release(node, end);
    for (const int id : at.before_actions) release(static_cast<size_t>(head_of(id)), end);
    return end;
  }

  double start_everywhere(Collective& at, size_t index, double now) {
    const auto owned = schedule_.stages_by_rank();
    for (size_t rank = 0; rank < owned.size(); ++rank) {
      at.here.action.stage = owned[rank].front();
      program_.ranks[rank].instructions.push_back(at.here);
    }
    for (const size_t node : after_collective_[index]) release(node, now + at.cost);
    return now + at.cost;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  LoweringOptions options_;
  StepGraph graph_;
  int count_;
  std::vector<Collective> collectives_;
  std::vector<int> last_weight_;
  // By node: the actions, then the transfers by their consumer, then the collectives.
  std::vector<int> pending_;
  std::vector<double> ready_;
  std::priority_queue<Entry> open_;
  std::vector<Buffer> output_;
  std::vector<Buffer> received_;
  std::vector<int> slot_of_;
  std::vector<int> weight_slot_of_;
  std::vector<Numbers> slots_;
  std::vector<Numbers> weight_slots_;
  std::vector<std::array<Numbers, buffer_pools>> pools_;
  // Nodes that an action or a collective releases.
  std::unordered_map<int, std::vector<size_t>> after_action_;
  std::unordered_map<size_t, std::vector<size_t>> after_collective_;
  Program program_;
};

}  // namespace

Program lower(const Schedule& schedule, const Costs& costs, const LoweringOptions& options) {
  require_valid(schedule);
  if (options.receive_lead < 0) {
    throw ScheduleError(fmt::format("a receive lead of {} actions: it is 0 or more", options.receive_lead));
  }
  if (schedule.copies > 1 && options.reduce_every > 0) {
    throw ScheduleError(
        fmt::format("gradients reduced every {} micro-batches by schedule {}: two copies of the weights sum "
                    "theirs once a step; set reduce_every to 0",
                    options.reduce_every, schedule.name));
  }
  require_fitting(costs, schedule);
  Lowering lowering(schedule, costs, options);
  lowering.run();
  return lowering.take();
}

int sufficient_receive_lead(const Schedule& schedule, const Costs& costs, LoweringOptions options) {
  options.reduce_gradients = false;
  options.receive_lead = std::numeric_limits<int>::max();
  const double best = Lowering(schedule, costs, options).run();
  for (options.receive_lead = 1; options.receive_lead < max_micro_batches; options.receive_lead *= 2) {
    // Sums of the same costs in another order may differ in their last bits.
    if (Lowering(schedule, costs, options).run() <= best * (1 + 1e-12)) break;
  }
  return options.receive_lead;
}

}  // namespace penstock::schedule
