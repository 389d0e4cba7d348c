#include "parallel/schedule/validate.h"

#include <algorithm>

#include <fmt/format.h>

#include "parallel/schedule/step_graph.h"

namespace penstock::schedule {

namespace {

class ScheduleCheck {
 public:
  explicit ScheduleCheck(const Schedule& schedule) : schedule_(schedule) {}

  std::vector<Violation> run() {
    check_form();
    if (!found_.empty()) return found_;  // what follows indexes by stage and micro-batch
    check_counts();
    if (!found_.empty()) return found_;
    const StepGraph graph(schedule_);
    check_order(graph);
    if (found_.empty()) check_progress(graph);
    return found_;
  }

 private:
  const std::vector<Action>& actions(int rank) const { return schedule_.actions[static_cast<size_t>(rank)]; }
  int owner(int stage) const { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; }

  void report(int rank, int position, const Action& action, std::string reason) {
    if (found_.size() < max_violations)
      found_.push_back({rank, position, to_string(action), std::move(reason)});
  }

  void check_form() {
    const Schedule& s = schedule_;
    const bool sized = s.ranks >= 1 && s.chunks >= 1 && s.micro_batches >= 1 && s.steps >= 1 &&
                       (s.copies == 1 || s.copies == 2) && s.actions.size() == static_cast<size_t>(s.ranks) &&
                       s.rank_of_stage.size() == static_cast<size_t>(s.stages());
    if (!sized) {
      found_.push_back({0, -1, "the schedule",
                        fmt::format("has {} lists and {} stages placed for P = {}, v = {}, {} copies",
                                    s.actions.size(), s.rank_of_stage.size(), s.ranks, s.chunks, s.copies)});
      return;
    }
    for (int stage = 0; stage < s.stages(); ++stage) {
      if (owner(stage) < 0 || owner(stage) >= s.ranks) {
        found_.push_back({owner(stage), -1, fmt::format("stage {}", stage),
                          fmt::format("is placed on rank {} of 0 to {}", owner(stage), s.ranks - 1)});
      }
    }
    for (int rank = 0; rank < s.ranks; ++rank) {
      for (size_t i = 0; i < actions(rank).size(); ++i) {
        const Action& action = actions(rank)[i];
        const int position = static_cast<int>(i);
        if (action.stage < 0 || action.stage >= s.stages()) {
          report(rank, position, action, fmt::format("stage {} of 0 to {}", action.stage, s.stages() - 1));
        } else if (action.micro_batch < 0 || action.micro_batch >= s.all_micro_batches()) {
          report(rank, position, action,
                 fmt::format("micro-batch {} of 0 to {}", action.micro_batch, s.all_micro_batches() - 1));
        } else if (owner(action.stage) != rank) {
          report(rank, position, action,
                 fmt::format("stage {} belongs to rank {}", action.stage, owner(action.stage)));
        }
      }
    }
  }

  // Each micro-batch passes through all stages of one copy, with F once and either B once or I and W once.
  void check_counts() {
    const int M = schedule_.all_micro_batches();
    const auto cells = static_cast<size_t>(schedule_.stages()) * static_cast<size_t>(M);
    // Position of the first appearance, by op.
    std::array<std::vector<int>, 4> seen;
    for (auto& table : seen) table.assign(cells, -1);
    std::array<std::vector<int>, 2> visits;
    for (auto& table : visits) table.assign(static_cast<size_t>(M), 0);
    const auto cell = [M](int stage, int m) {
      return static_cast<size_t>(stage) * static_cast<size_t>(M) + static_cast<size_t>(m);
    };
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      for (size_t i = 0; i < actions(rank).size(); ++i) {
        const Action& action = actions(rank)[i];
        int& first = seen[static_cast<size_t>(action.op)][cell(action.stage, action.micro_batch)];
        if (first >= 0) {
          report(rank, static_cast<int>(i), action, fmt::format("appears twice, first at #{}", first));
        } else {
          first = static_cast<int>(i);
        }
        ++visits[static_cast<size_t>(action.stage / schedule_.blocks())]
                [static_cast<size_t>(action.micro_batch)];
      }
    }
    for (int m = 0; m < M; ++m) {
      const int copy = visits[1][static_cast<size_t>(m)] > visits[0][static_cast<size_t>(m)] ? 1 : 0;
      for (int stage = 0; stage < schedule_.stages(); ++stage) {
        check_cell(stage, m, stage / schedule_.blocks() == copy,
                   [&](Op op) { return seen[static_cast<size_t>(op)][cell(stage, m)]; });
      }
    }
  }

  template <class Position>
  void check_cell(int stage, int m, bool expected, const Position& position) {
    const auto missing = [&](Op op, const char* reason) { report(owner(stage), -1, {op, stage, m}, reason); };
    for (const Op op : {Op::forward, Op::backward_input, Op::backward_weight, Op::backward}) {
      if (!expected && position(op) >= 0) {
        report(owner(stage), position(op), {op, stage, m}, "its micro-batch passes through the other copy");
      }
    }
    if (!expected) return;
    if (position(Op::forward) < 0) missing(Op::forward, "is missing");
    if (position(Op::backward) >= 0) {
      for (const Op op : {Op::backward_input, Op::backward_weight}) {
        if (position(op) >= 0)
          report(owner(stage), position(op), {op, stage, m}, "repeats a part of the B there is");
      }
    } else if (position(Op::backward_input) < 0 && position(Op::backward_weight) < 0) {
      missing(Op::backward, "is missing (or I and W in its place)");
    } else if (position(Op::backward_input) < 0) {
      missing(Op::backward_input, "is missing, though W is there");
    } else if (position(Op::backward_weight) < 0) {
      missing(Op::backward_weight, "is missing, though I is there");
    }
  }

  void check_order(const StepGraph& graph) {
    std::vector<int> last_input(static_cast<size_t>(schedule_.stages()), -1);
    std::vector<int> last_weight(last_input);
    for (int id = 0; id < graph.size(); ++id) {
      const Action& action = graph.action(id);
      const int forward = graph.forward(action.stage, action.micro_batch);
      const int input = graph.input_gradient(action.stage, action.micro_batch);
      if (gives_input_gradient(action.op) && forward > id) {
        report(graph.rank(id), graph.position(id), action,
               fmt::format("comes before its forward, #{}", graph.position(forward)));
      }
      if (action.op == Op::backward_weight && input > id) {
        report(graph.rank(id), graph.position(id), action,
               fmt::format("comes before its input gradient, #{}", graph.position(input)));
      }
      const auto ascending = [&](bool counts, int& last, const char* what) {
        if (!counts) return;
        if (action.micro_batch < last) {
          report(
              graph.rank(id), graph.position(id), action,
              fmt::format("its {} gradient comes after that of micro-batch {}: sums go in micro-batch order",
                          what, last));
        }
        last = std::max(last, action.micro_batch);
      };
      ascending(gives_input_gradient(action.op), last_input[static_cast<size_t>(action.stage)], "input");
      ascending(gives_weight_gradient(action.op), last_weight[static_cast<size_t>(action.stage)], "weight");
    }
  }

  // Runs the lists as far as they go; ranks that do not reach their end wait for each other.
  void check_progress(const StepGraph& graph) {
    std::vector<int> next(static_cast<size_t>(schedule_.ranks));
    std::vector<char> done(static_cast<size_t>(graph.size()), 0);
    std::vector<int> open;
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      next[static_cast<size_t>(rank)] = graph.first(rank);
      open.push_back(rank);
    }
    while (!open.empty()) {
      const int rank = open.back();
      open.pop_back();
      int& at = next[static_cast<size_t>(rank)];
      while (at < graph.first(rank + 1)) {
        const int producer = graph.producer(at);
        if (producer >= 0 && done[static_cast<size_t>(producer)] == 0) break;
        done[static_cast<size_t>(at)] = 1;
        const int consumer = graph.consumer(at);
        if (consumer >= 0 && graph.rank(consumer) != rank &&
            next[static_cast<size_t>(graph.rank(consumer))] == consumer) {
          open.push_back(graph.rank(consumer));
        }
        ++at;
      }
    }
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      const int at = next[static_cast<size_t>(rank)];
      if (at == graph.first(rank + 1)) continue;
      const int producer = graph.producer(at);
      const int other = graph.rank(producer);
      const int blocked = next[static_cast<size_t>(other)];
      report(rank, graph.position(at), graph.action(at),
             fmt::format("waits for ever for {}, #{} of rank {}, which is stuck at its #{} {}",
                         to_string(graph.action(producer)), graph.position(producer), other,
                         graph.position(blocked), to_string(graph.action(blocked))));
    }
  }

  const Schedule& schedule_;
  std::vector<Violation> found_;
};

void require(const std::string& name, const std::vector<Violation>& found) {
  if (found.empty()) return;
  std::string message = fmt::format("schedule {} is not valid:", name);
  for (const Violation& violation : found) message += "\n  " + violation.text();
  if (found.size() == max_violations) message += "\n  (and perhaps more)";
  throw ScheduleError(message);
}

}  // namespace

std::string Violation::text() const {
  if (position < 0) return fmt::format("rank {}, {}: {}", rank, action, reason);
  return fmt::format("rank {}, #{} {}: {}", rank, position, action, reason);
}

std::vector<Violation> validate(const Schedule& schedule) {
  return ScheduleCheck(schedule).run();
}

void require_valid(const Schedule& schedule) {
  require(schedule.name, validate(schedule));
}

void require_valid(const Program& program) {
  require(program.schedule.name, validate(program));
}

}  // namespace penstock::schedule
