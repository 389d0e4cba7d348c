#include "parallel/schedule/simulate.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

#include <fmt/format.h>

#include "parallel/schedule/rendezvous.h"
#include "parallel/schedule/wiring.h"

namespace penstock::schedule {

namespace {

// A node is an instruction, or two that happen together: both ends of a transfer or of a sum over two ranks,
// or a fused pair of F and B. The instruction with the smaller number stands for both.
class Simulation {
 public:
  Simulation(const Program& program, const Costs& costs)
      : program_(program), costs_(costs), schedule_(program.schedule) {
    std::vector<Violation> found;
    wiring_ = wire(program, found);
    if (!found.empty())
      throw ScheduleError("cannot simulate a program that is not valid: " + found[0].text());
    const auto size = static_cast<size_t>(wiring_.size());
    instructions_.reserve(size);
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      for (const Instruction& each : program.ranks[static_cast<size_t>(rank)].instructions) {
        instructions_.push_back(&each);
        ranks_.push_back(rank);
      }
    }
    node_of_.resize(size);
    for (size_t id = 0; id < size; ++id) {
      const int partner = wiring_.partner[id];
      node_of_[id] = partner >= 0 ? std::min(partner, static_cast<int>(id)) : static_cast<int>(id);
    }
    meet_to_agree();
    pending_.assign(size, 0);
    spans_.assign(size, {});
    version_.assign(size, 0);
    remaining_.assign(size, 0);
    running_.assign(static_cast<size_t>(schedule_.ranks), -1);
    traffic_.assign(static_cast<size_t>(schedule_.ranks), 0);
    arrived_.assign(static_cast<size_t>(schedule_.ranks), 0);
    since_.assign(static_cast<size_t>(schedule_.ranks), 0);
    second_of_.assign(size, -1);
    connect();
  }

  Timeline run() {
    size_t ended = 0;
    for (size_t id = 0; id < pending_.size(); ++id) {
      if (node_of_[id] == static_cast<int>(id) && pending_[id] == 0) start(static_cast<int>(id));
    }
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      const auto node = static_cast<size_t>(event.node);
      if (event.version != version_[node]) continue;
      now_ = event.time;
      if (event.arrival) {
        release(event.node, true);
        continue;
      }
      ++ended;
      finish(event.node);
    }
    size_t nodes = 0;
    for (size_t id = 0; id < node_of_.size(); ++id) nodes += node_of_[id] == static_cast<int>(id) ? 1 : 0;
    if (ended != nodes) throw ScheduleError("the program deadlocks: validate it before it is simulated");
    Timeline timeline;
    timeline.spans.resize(static_cast<size_t>(schedule_.ranks));
    for (size_t id = 0; id < spans_.size(); ++id) {
      if (at(static_cast<int>(id)).kind == InstructionKind::agree)
        spans_[id] = spans_[static_cast<size_t>(node_of_[id])];
      timeline.spans[static_cast<size_t>(ranks_[id])].push_back(spans_[id]);
    }
    return timeline;
  }

 private:
  struct Event {
    double time;
    int node;
    int version;
    // A transfer's message is there; its streams were free before.
    bool arrival;
    bool operator<(const Event& other) const {
      return std::tie(other.time, other.node, other.arrival) < std::tie(time, node, arrival);
    }
  };
  struct Edge {
    int to;
    bool at_arrival;
  };

  const Instruction& at(int id) const { return *instructions_[static_cast<size_t>(id)]; }
  bool is_compute(int id) const { return at(id).kind == InstructionKind::compute; }

  // All ranks' agreements of a step are one node.
  void meet_to_agree() {
    std::map<int, int> first;
    for (size_t id = 0; id < instructions_.size(); ++id) {
      if (at(static_cast<int>(id)).kind == InstructionKind::agree)
        node_of_[id] = first.emplace(at(static_cast<int>(id)).step, static_cast<int>(id)).first->second;
    }
  }

  void connect() {
    if (program_.options.fuse_pairs) fuse();
    std::vector<std::tuple<int, int, bool>> edges;
    const auto add = [&](int from, int to, bool at_arrival) {
      const int a = node_of_[static_cast<size_t>(from)];
      const int b = node_of_[static_cast<size_t>(to)];
      if (a == b) return;
      edges.emplace_back(a, b, at_arrival);
      ++pending_[static_cast<size_t>(b)];
    };
    std::vector<int> last;
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      last.assign(max_queues, -1);
      for (int id = wiring_.first[static_cast<size_t>(rank)];
           id < wiring_.first[static_cast<size_t>(rank) + 1]; ++id) {
        for (const int before : wiring_.waits_for[static_cast<size_t>(id)]) {
          if (before >= 0) add(before, id, at(before).kind == InstructionKind::receive);
        }
        int& previous = last[static_cast<size_t>(queue_of(at(id), QueueLayout::send_and_receive))];
        if (previous >= 0) add(previous, id, false);
        previous = id;
      }
    }
    edge_begin_.assign(pending_.size() + 1, 0);
    for (const auto& edge : edges) ++edge_begin_[static_cast<size_t>(std::get<0>(edge)) + 1];
    for (size_t i = 1; i < edge_begin_.size(); ++i) edge_begin_[i] += edge_begin_[i - 1];
    edges_.resize(edges.size());
    std::vector<size_t> at_edge(edge_begin_.begin(), edge_begin_.end() - 1);
    for (const auto& [from, to, at_arrival] : edges)
      edges_[at_edge[static_cast<size_t>(from)]++] = {to, at_arrival};
  }

  void fuse() {
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      int open = -1;
      for (int id = wiring_.first[static_cast<size_t>(rank)];
           id < wiring_.first[static_cast<size_t>(rank) + 1]; ++id) {
        if (!is_compute(id)) continue;
        if (open >= 0) {
          node_of_[static_cast<size_t>(id)] = open;
          second_of_[static_cast<size_t>(open)] = id;
        }
        open = open < 0 && at(id).action.paired ? id : -1;
      }
    }
  }

  double cost(int id) const {
    const Instruction& instruction = at(id);
    switch (instruction.kind) {
      case InstructionKind::compute:
        return costs_.of(instruction.action);
      case InstructionKind::send:
        return costs_.link(ranks_[static_cast<size_t>(id)], instruction.peer, schedule_.ranks).occupancy;
      case InstructionKind::receive:
        return costs_.link(instruction.peer, ranks_[static_cast<size_t>(id)], schedule_.ranks).occupancy;
      case InstructionKind::reduce_gradients:
        return Costs::of_block(costs_.gradient_reduction, schedule_.block_of(instruction.action.stage)) *
               (instruction.last ? 1.0 : 0.5);
      case InstructionKind::sum_tied:
        return costs_.tied_sum;
      case InstructionKind::agree:
        return 0;
      case InstructionKind::optimizer_step:
        return costs_.optimizer_step;
      case InstructionKind::gather_parameters:
        return Costs::of_block(costs_.parameter_gather, schedule_.block_of(instruction.action.stage));
    }
    return 0;
  }

  double latency(int id) const {
    const Instruction& instruction = at(id);
    const int rank = ranks_[static_cast<size_t>(id)];
    if (instruction.kind == InstructionKind::send)
      return costs_.link(rank, instruction.peer, schedule_.ranks).latency;
    if (instruction.kind == InstructionKind::receive)
      return costs_.link(instruction.peer, rank, schedule_.ranks).latency;
    return 0;
  }

  double pace(int rank) const {
    return traffic_[static_cast<size_t>(rank)] > 0 ? 1 + costs_.traffic_slowdown : 1;
  }

  void start(int node) {
    const auto n = static_cast<size_t>(node);
    spans_[n].start = now_;
    const int rank = ranks_[n];
    double work = cost(node);
    if (!is_compute(node)) {
      change_traffic(node, 1);
      events_.push({now_ + work, node, ++version_[n], false});
      return;
    }
    const int second = second_of_[n];
    if (second >= 0) {
      spans_[static_cast<size_t>(second)].start = now_ + work;
      work += cost(second);
    }
    running_[static_cast<size_t>(rank)] = node;
    remaining_[n] = work;
    since_[static_cast<size_t>(rank)] = now_;
    events_.push({now_ + work * pace(rank), node, ++version_[n], false});
  }

  void finish(int node) {
    const auto n = static_cast<size_t>(node);
    spans_[n].end = now_;
    const int partner = wiring_.partner[n];
    if (is_compute(node)) {
      running_[static_cast<size_t>(ranks_[n])] = -1;
      const int second = second_of_[n];
      if (second >= 0) {
        spans_[n].end = spans_[static_cast<size_t>(second)].start;
        spans_[static_cast<size_t>(second)].end = now_;
      }
      release(node, false);
      release(node, true);
      return;
    }
    change_traffic(node, -1);
    const double arrival = arrive(node, partner);
    spans_[n].end = arrival;
    if (partner >= 0) spans_[static_cast<size_t>(partner)] = spans_[n];
    release(node, false);
    if (arrival > now_) {
      events_.push({arrival, node, version_[n], true});
    } else {
      release(node, true);
    }
  }

  // A receive stream is in order: what was received is seen after everything received before it.
  double arrive(int node, int partner) {
    const double arrival = now_ + latency(node);
    if (!at(node).is_transfer() || partner < 0) return arrival;
    const int receive = at(node).kind == InstructionKind::receive ? node : partner;
    double& latest = arrived_[static_cast<size_t>(ranks_[static_cast<size_t>(receive)])];
    return latest = std::max(latest, arrival);
  }

  void release(int node, bool at_arrival) {
    for (size_t i = edge_begin_[static_cast<size_t>(node)]; i < edge_begin_[static_cast<size_t>(node) + 1];
         ++i) {
      if (edges_[i].at_arrival == at_arrival && --pending_[static_cast<size_t>(edges_[i].to)] == 0)
        start(edges_[i].to);
    }
  }

  // A transfer or collective begins (+1) or ends (−1) on its ranks: what they compute slows down or speeds
  // up.
  void change_traffic(int node, int change) {
    const InstructionKind kind = at(node).kind;
    if (costs_.traffic_slowdown == 0 || kind == InstructionKind::optimizer_step ||
        kind == InstructionKind::agree)
      return;
    const int partner = wiring_.partner[static_cast<size_t>(node)];
    for (const int end : {node, partner}) {
      if (end < 0) continue;
      const int rank = ranks_[static_cast<size_t>(end)];
      const double before = pace(rank);
      traffic_[static_cast<size_t>(rank)] += change;
      const int computing = running_[static_cast<size_t>(rank)];
      if (computing < 0 || before == pace(rank)) continue;
      double& left = remaining_[static_cast<size_t>(computing)];
      left = std::max(0.0, left - (now_ - since_[static_cast<size_t>(rank)]) / before);
      since_[static_cast<size_t>(rank)] = now_;
      events_.push({now_ + left * pace(rank), computing, ++version_[static_cast<size_t>(computing)], false});
    }
  }

  const Program& program_;
  const Costs& costs_;
  const Schedule& schedule_;
  Wiring wiring_;
  std::vector<const Instruction*> instructions_;
  std::vector<int> ranks_;
  // By instruction: its node, and the B that is fused to it.
  std::vector<int> node_of_;
  std::vector<int> second_of_;
  std::vector<int> pending_;
  std::vector<size_t> edge_begin_;
  std::vector<Edge> edges_;
  std::vector<Span> spans_;
  // Events of an older version are void.
  std::vector<int> version_;
  std::vector<double> remaining_;
  std::vector<double> since_;
  // By rank: the node it computes, and its transfers and collectives under way.
  std::vector<int> running_;
  std::vector<int> traffic_;
  // By rank: when the latest of what it received was there.
  std::vector<double> arrived_;
  std::priority_queue<Event> events_;
  double now_ = 0;
};

}  // namespace

Timeline simulate(const Program& program, const Costs& costs) {
  require_fitting(costs, program.schedule);
  return Simulation(program, costs).run();
}

}  // namespace penstock::schedule
