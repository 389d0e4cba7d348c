#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/schedule/costs.h"
#include "parallel/schedule/measures.h"
#include "parallel/schedule/schedule.h"

namespace penstock::planner {

/// A schedule's step as a graph of actions that is timed again and again with other costs: a pass over the
/// actions in an order that fits all of them, without lowering.
///
/// Where transfers only delay (occupancy 0, one latency, no slow-down under traffic) the times are those of
/// simulate() on the program that is lowered with the same costs and a sufficient receive lead. Where they
/// occupy their links, or some are faster than others, messages queue on the sender's and the receiver's
/// stream in the order of settle(), and a slow-down is charged for every message: close, not always equal.
class StepForecast {
 public:
  /// One step. `reduces`: gradients are reduced over replicas (over copies they always are); `tied`: the
  /// first and the last stage share a weight. ScheduleError for a schedule whose actions cannot all happen.
  StepForecast(schedule::Schedule schedule, bool reduces, bool tied);

  struct Times {
    double makespan = 0;  ///< first action to last
    double step = 0;      ///< with reductions, tied sum and the optimizer, which needs every rank's gradients
  };
  Times time(const schedule::Costs& costs);

  /// Takes the order in which messages queue from these costs. Until then messages do not queue.
  void settle(const schedule::Costs& costs);
  bool settled() const { return !items_.empty(); }

  /// The same with everything that measure() says of a simulated program; waits for buffers do not happen.
  schedule::Measures measure(const schedule::Costs& costs);
  /// Median over the micro-batches of the time from the start of the first stage's forward to the end of its
  /// input gradient; of the costs that were timed last.
  double micro_batch_latency() const;

  size_t actions() const { return nodes_.size() - 1; }
  const schedule::Schedule& schedule() const { return schedule_; }

 private:
  /// An action. Node 0 is none: it ends at 0.
  struct Node {
    int cost = 0;      ///< 4 · stage + op
    int rank = 0;      ///< where it runs
    int producer = 0;  ///< whose result it reads
    int message = 0;   ///< that brings it: 0 none, else 1 + 2 · stage (+ 1 for a gradient) of the producer
  };
  /// A node, or the message to it, in the order in which contended times are computed.
  struct Item {
    int node = 0;
    bool message = false;
  };
  /// A message's ends and what it costs with the costs at hand.
  struct Message {
    int source = 0;
    int destination = 0;
    double latency = 0;
    double occupancy = 0;
  };

  void price(const schedule::Costs& costs);
  void pass();
  void contended_pass();
  double tail(const schedule::Costs& costs) const;
  /// From when on the gradients of blocks, of all their copies, are reduced; they take their ranks' streams.
  void reduce(const schedule::Costs& costs, std::vector<double>& done, std::vector<double>& stream) const;

  schedule::Schedule schedule_;
  bool reduces_;
  bool tied_;
  std::vector<Node> nodes_;
  std::vector<int> last_weight_;  ///< (all stages): the node of the stage's last weight gradient
  std::vector<int> first_forward_;
  std::vector<int> first_gradient_;  ///< (M): of the first stage
  std::vector<Item> items_;
  // Of the costs at hand.
  std::vector<double> costs_;   ///< by Node::cost
  std::vector<double> delays_;  ///< by Node::message
  std::vector<Message> messages_;
  bool contended_ = false;
  std::vector<double> ends_;      ///< by node
  std::vector<double> arrivals_;  ///< by node: of its input; contended passes only
  std::vector<double> free_;      ///< by rank
  std::vector<double> send_free_;
  std::vector<double> receive_free_;
  std::vector<double> received_;  ///< by rank: when the latest message was there
};

}  // namespace penstock::planner
