#include "parallel/planner/step_forecast.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "parallel/schedule/middle.h"

namespace penstock::planner {

using schedule::Action;
using schedule::Costs;
using schedule::Op;
using schedule::Schedule;

namespace {

size_t at(int index) {
  return static_cast<size_t>(index);
}

}  // namespace

StepForecast::StepForecast(Schedule taken, bool reduces, bool tied)
    : schedule_(std::move(taken)), reduces_(reduces), tied_(tied) {
  const Schedule& schedule = schedule_;
  if (schedule.steps != 1) {
    throw schedule::ScheduleError(
        fmt::format("schedule {}: one step is planned; it lists {}", schedule.name, schedule.steps));
  }
  const int S = schedule.stages();
  const int M = schedule.micro_batches;
  size_t actions = 0;
  for (const auto& list : schedule.actions) actions += list.size();
  nodes_.reserve(actions + 1);
  nodes_.push_back({});
  const auto cell = [M](int stage, int micro_batch) { return at(stage) * at(M) + at(micro_batch); };
  // Nodes of forwards and input gradients that are placed already; 0: not yet.
  std::vector<int> forwards(at(S) * at(M), 0);
  std::vector<int> gradients(forwards.size(), 0);
  last_weight_.assign(at(S), 0);
  std::vector<size_t> next(at(schedule.ranks), 0);
  messages_.assign(1 + 2 * at(S), {});
  std::vector<int> open;
  for (int rank = schedule.ranks - 1; rank >= 0; --rank) open.push_back(rank);
  // Every rank runs until it needs what is not there; whoever makes it opens the rank again.
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    const std::vector<Action>& list = schedule.actions[at(rank)];
    for (size_t& position = next[at(rank)]; position < list.size(); ++position) {
      const Action& action = list[position];
      const int stage = action.stage;
      Node node{4 * stage + static_cast<int>(action.op), rank, 0, 0};
      int neighbour = -1;
      if (action.op == Op::forward && !schedule.is_first(stage)) neighbour = stage - 1;
      if (gives_input_gradient(action.op) && !schedule.is_last(stage)) neighbour = stage + 1;
      if (neighbour >= 0) {
        const bool gradient = action.op != Op::forward;
        node.producer = (gradient ? gradients : forwards)[cell(neighbour, action.micro_batch)];
        if (node.producer == 0) break;
        const int source = nodes_[at(node.producer)].rank;
        if (source != rank) {
          node.message = 1 + 2 * neighbour + (gradient ? 1 : 0);
          messages_[at(node.message)] = {source, rank, 0, 0};
        }
      }
      const int made = static_cast<int>(nodes_.size());
      nodes_.push_back(node);
      int reader = -1;
      if (action.op == Op::forward) {
        forwards[cell(stage, action.micro_batch)] = made;
        if (!schedule.is_last(stage)) reader = stage + 1;
      }
      if (gives_input_gradient(action.op)) {
        gradients[cell(stage, action.micro_batch)] = made;
        if (!schedule.is_first(stage)) reader = stage - 1;
      }
      if (gives_weight_gradient(action.op)) last_weight_[at(stage)] = made;
      if (reader < 0) continue;
      const int other = schedule.rank_of_stage[at(reader)];
      if (other != rank && (open.empty() || open.back() != other)) open.push_back(other);
    }
  }
  if (nodes_.size() != actions + 1) {
    throw schedule::ScheduleError(
        fmt::format("schedule {}: {} of {} actions can happen", schedule.name, nodes_.size() - 1, actions));
  }
  for (int m = 0; m < M; ++m) {
    // Through the copy that computes it.
    const int first = forwards[cell(0, m)] > 0 ? 0 : S - schedule.blocks();
    first_forward_.push_back(forwards[cell(first, m)]);
    first_gradient_.push_back(gradients[cell(first, m)]);
  }
  ends_.assign(nodes_.size(), 0);
  costs_.assign(4 * at(S), 0);
  delays_.assign(messages_.size(), 0);
}

void StepForecast::price(const Costs& costs) {
  const int S = schedule_.stages();
  std::vector<double> slowed(at(S), 0);
  contended_ = false;
  double one_latency = -1;
  for (size_t index = 1; index < messages_.size(); ++index) {
    Message& message = messages_[index];
    if (message.source == message.destination) continue;
    const schedule::Link& link = costs.link(message.source, message.destination, schedule_.ranks);
    message.latency = link.latency;
    message.occupancy = link.occupancy;
    delays_[index] = link.latency + link.occupancy;
    if (one_latency < 0) one_latency = link.latency;
    contended_ = contended_ || link.occupancy > 0 || link.latency != one_latency;
    // While o of an action's time is under way, o · s / (1 + s) of it is lost; at both ends.
    const double lost = link.occupancy * costs.traffic_slowdown / (1 + costs.traffic_slowdown);
    const int stage = (static_cast<int>(index) - 1) / 2;
    slowed[at(stage)] += lost;
    slowed[at(index % 2 == 1 ? stage + 1 : stage - 1)] += lost;
  }
  for (int stage = 0; stage < S; ++stage) {
    const schedule::StageCosts& own = costs.of_stage(stage);
    const double work = own.forward + own.backward_input + own.backward_weight;
    const double pace = work > 0 ? 1 + std::min(costs.traffic_slowdown, slowed[at(stage)] / work) : 1;
    double* priced = &costs_[4 * at(stage)];
    priced[static_cast<size_t>(Op::forward)] = own.forward * pace;
    priced[static_cast<size_t>(Op::backward_input)] = own.backward_input * pace;
    priced[static_cast<size_t>(Op::backward_weight)] = own.backward_weight * pace;
    priced[static_cast<size_t>(Op::backward)] = (own.backward_input + own.backward_weight) * pace;
  }
  free_.assign(at(schedule_.ranks), 0);
}

void StepForecast::pass() {
  const double* const delays = delays_.data();
  const double* const costs = costs_.data();
  double* const ends = ends_.data();
  double* const free = free_.data();
  const size_t count = nodes_.size();
  for (size_t i = 1; i < count; ++i) {
    const Node& node = nodes_[i];
    const double start = std::max(free[node.rank], ends[node.producer] + delays[node.message]);
    free[node.rank] = ends[i] = start + costs[node.cost];
  }
}

void StepForecast::contended_pass() {
  send_free_.assign(free_.size(), 0);
  receive_free_.assign(free_.size(), 0);
  received_.assign(free_.size(), 0);
  arrivals_.resize(nodes_.size());
  for (const Item item : items_) {
    const Node& node = nodes_[at(item.node)];
    const Message& message = messages_[at(node.message)];
    if (item.message) {
      double& sends = send_free_[at(message.source)];
      double& receives = receive_free_[at(message.destination)];
      sends = receives = std::max({ends_[at(node.producer)], sends, receives}) + message.occupancy;
      // A receive stream is in order: what is there is seen after all that was received before.
      double& latest = received_[at(message.destination)];
      arrivals_[at(item.node)] = latest = std::max(latest, sends + message.latency);
      continue;
    }
    const double input = node.message == 0 ? ends_[at(node.producer)] : arrivals_[at(item.node)];
    double& free = free_[at(node.rank)];
    free = ends_[at(item.node)] = std::max(free, input) + costs_[at(node.cost)];
  }
}

void StepForecast::settle(const Costs& costs) {
  price(costs);
  pass();
  // Starts grow along every edge of the graph, and so do the numbers of nodes: the order fits both.
  struct Key {
    double time;
    Item item;
  };
  std::vector<Key> keys;
  keys.reserve(2 * nodes_.size());
  for (int i = 1; i < static_cast<int>(nodes_.size()); ++i) {
    const Node& node = nodes_[at(i)];
    keys.push_back({ends_[at(i)] - costs_[at(node.cost)], {i, false}});
    if (node.message > 0) keys.push_back({ends_[at(node.producer)], {i, true}});
  }
  std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) {
    return std::tuple(a.time, a.item.node, !a.item.message) <
           std::tuple(b.time, b.item.node, !b.item.message);
  });
  items_.clear();
  for (const Key& key : keys) items_.push_back(key.item);
}

void StepForecast::reduce(const Costs& costs, std::vector<double>& done, std::vector<double>& stream) const {
  const int blocks = schedule_.blocks();
  // A block can be reduced when all its copies are done.
  const auto ready = [&](int block) {
    double latest = 0;
    for (int stage = block; stage < schedule_.stages(); stage += blocks)
      latest = std::max(latest, done[at(stage)]);
    return latest;
  };
  std::vector<std::pair<double, int>> order;
  for (int block = 0; block < blocks; ++block) order.emplace_back(ready(block), block);
  std::sort(order.begin(), order.end());
  for (const auto& [start, block] : order) {
    double end = start;
    for (int stage = block; stage < schedule_.stages(); stage += blocks)
      end = std::max(end, stream[at(schedule_.rank_of_stage[at(stage)])]);
    end += Costs::of_block(costs.gradient_reduction, block);
    for (int stage = block; stage < schedule_.stages(); stage += blocks)
      stream[at(schedule_.rank_of_stage[at(stage)])] = done[at(stage)] = end;
  }
}

double StepForecast::tail(const Costs& costs) const {
  const int S = schedule_.stages();
  double end = *std::max_element(free_.begin(), free_.end());
  std::vector<double> stream(at(schedule_.ranks), 0);
  std::vector<double> done(at(S), 0);
  for (int stage = 0; stage < S; ++stage) done[at(stage)] = ends_[at(last_weight_[at(stage)])];
  if (reduces_ || schedule_.copies > 1) {
    reduce(costs, done, stream);
    end = std::max(end, *std::max_element(done.begin(), done.end()));
  }
  if (tied_) {
    const int blocks = schedule_.blocks();
    double ready = 0;
    for (int stage = 0; stage < S; ++stage) {
      if (stage % blocks != 0 && stage % blocks != blocks - 1) continue;
      ready = std::max({ready, done[at(stage)], stream[at(schedule_.rank_of_stage[at(stage)])]});
    }
    end = std::max(end, ready + costs.tied_sum);
  }
  return end + costs.optimizer_step;
}

StepForecast::Times StepForecast::time(const Costs& costs) {
  price(costs);
  if (contended_ && settled()) {
    contended_pass();
  } else {
    pass();
  }
  return {*std::max_element(free_.begin(), free_.end()), tail(costs)};
}

schedule::Measures StepForecast::measure(const Costs& costs) {
  const Times times = time(costs);
  const bool contended = contended_ && settled();
  schedule::Measures measures;
  measures.makespan = times.makespan;
  measures.step_time = times.step;
  measures.ranks.resize(free_.size());
  std::vector<bool> begun(free_.size(), false);
  for (size_t i = 1; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    schedule::RankMeasures& rank = measures.ranks[at(node.rank)];
    const double start = ends_[i] - costs_[at(node.cost)];
    if (!begun[at(node.rank)]) {
      begun[at(node.rank)] = true;
      rank.first_start = rank.causes.fill = start;
    } else {
      const double made = std::clamp(ends_[at(node.producer)], rank.last_end, std::max(rank.last_end, start));
      rank.causes.wait += made - rank.last_end;
      const double arrived = node.message == 0 ? made
                             : contended       ? arrivals_[i]
                                               : ends_[at(node.producer)] + delays_[at(node.message)];
      rank.causes.transfer += std::clamp(arrived, made, std::max(made, start)) - made;
    }
    rank.busy += costs_[at(node.cost)];
    rank.last_end = ends_[i];
  }
  double busy = 0;
  double longest = 0;
  for (size_t r = 0; r < free_.size(); ++r) {
    schedule::RankMeasures& rank = measures.ranks[r];
    rank.idle = times.makespan - rank.busy;
    rank.causes.drain = times.makespan - rank.last_end;
    rank.causes.reduction = times.step - times.makespan;
    rank.peak_slots = schedule::peak_slots(schedule_, static_cast<int>(r));
    busy += rank.busy / static_cast<double>(free_.size());
    longest = std::max(longest, rank.last_end - rank.first_start);
  }
  measures.bubble_ratio = times.makespan > 0 ? 1 - busy / times.makespan : 0;
  measures.bubble_ratio_rank_span = longest > 0 ? 1 - busy / longest : 0;
  return measures;
}

double StepForecast::micro_batch_latency() const {
  std::vector<double> latencies;
  for (size_t m = 0; m < first_forward_.size(); ++m) {
    const auto start = at(first_forward_[m]);
    latencies.push_back(ends_[at(first_gradient_[m])] - (ends_[start] - costs_[at(nodes_[start].cost)]));
  }
  return schedule::middle(latencies);
}

}  // namespace penstock::planner
