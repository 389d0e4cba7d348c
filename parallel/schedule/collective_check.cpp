#include "parallel/schedule/collective_check.h"

#include <utility>

#include <fmt/format.h>

#include "parallel/schedule/collectives.h"

namespace penstock::schedule {

namespace {

class CollectiveCheck {
 public:
  CollectiveCheck(const Program& program, const StepGraph& graph, std::vector<Violation>& found)
      : program_(program), graph_(graph), found_(found), used_(program.ranks.size()) {
    for (int rank = 0; rank < program.schedule.ranks; ++rank) {
      const auto& list = program.ranks[static_cast<size_t>(rank)].instructions;
      used_[static_cast<size_t>(rank)].assign(list.size(), 0);
      for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].kind == InstructionKind::compute) position_of_action_.push_back(static_cast<int>(i));
      }
    }
  }

  void run() {
    const std::vector<Collective> expected =
        plan_collectives(program_.schedule, graph_, Costs{}, program_.options);
    std::vector<std::vector<std::pair<int, int>>> places;  // (rank, position) of all ends
    for (const Collective& each : expected) {
      auto& place = places.emplace_back();
      if (!each.everywhere) place.emplace_back(each.rank, find(each.rank, each.here));
      if (each.there) place.emplace_back(each.here.peer, find(each.here.peer, *each.there));
      for (int rank = 0; each.everywhere && rank < program_.schedule.ranks; ++rank)
        place.emplace_back(rank, find(rank, each.here));
      for (const auto& [rank, position] : place) {
        if (position < 0) continue;
        for (const int id : each.after_actions) {
          const int before = position_of_action_[static_cast<size_t>(id)];
          if (graph_.rank(id) == rank && before > position) too_early(rank, position, before);
        }
        for (const size_t other : each.after) {
          for (const auto& [other_rank, before] : places[other]) {
            if (other_rank == rank && before > position) too_early(rank, position, before);
          }
        }
        for (const int id : each.before_actions) {
          const int after = position_of_action_[static_cast<size_t>(id)];
          if (graph_.rank(id) == rank && after < position) too_early(rank, after, position);
        }
      }
    }
    for (int rank = 0; rank < program_.schedule.ranks; ++rank) {
      const auto& list = program_.ranks[static_cast<size_t>(rank)].instructions;
      for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].kind == InstructionKind::compute || list[i].is_transfer()) continue;
        if (used_[static_cast<size_t>(rank)][i] == 0)
          report(rank, static_cast<int>(i), "has no place in the step, or comes twice");
      }
    }
    check_last();
  }

 private:
  const Instruction& at(int rank, int position) const {
    return program_.ranks[static_cast<size_t>(rank)].instructions[static_cast<size_t>(position)];
  }

  void report(int rank, int position, std::string reason) {
    if (found_.size() < max_violations)
      found_.push_back({rank, position, to_string(at(rank, position)), std::move(reason)});
  }

  void too_early(int rank, int position, int before) {
    report(rank, position,
           fmt::format("comes before #{} {}, which it needs", before, to_string(at(rank, before))));
  }

  int find(int rank, const Instruction& wanted) {
    const auto& list = program_.ranks[static_cast<size_t>(rank)].instructions;
    auto& used = used_[static_cast<size_t>(rank)];
    for (size_t i = 0; i < list.size(); ++i) {
      const bool matches = used[i] == 0 && list[i].kind == wanted.kind && list[i].step == wanted.step &&
                           list[i].last == wanted.last && list[i].peer == wanted.peer &&
                           (wanted.kind == InstructionKind::optimizer_step ||
                            wanted.kind == InstructionKind::agree || list[i].action == wanted.action);
      if (!matches) continue;
      used[i] = 1;
      return static_cast<int>(i);
    }
    if (found_.size() < max_violations) found_.push_back({rank, -1, to_string(wanted), "is missing"});
    return -1;
  }

  void check_last() {
    const std::vector<int> last = last_weight_gradients(program_.schedule, graph_);
    for (int id = 0; id < graph_.size(); ++id) {
      const int position = position_of_action_[static_cast<size_t>(id)];
      const Instruction& compute = at(graph_.rank(id), position);
      const int step = compute.action.micro_batch / program_.schedule.micro_batches;
      if (compute.step != step)
        report(graph_.rank(id), position, fmt::format("belongs to step {}, not {}", step, compute.step));
      const bool is_last =
          last[static_cast<size_t>(compute.action.stage) * static_cast<size_t>(program_.schedule.steps) +
               static_cast<size_t>(step)] == id;
      if (is_last == compute.last) continue;
      report(graph_.rank(id), position,
             is_last ? "is the last weight gradient of its stage, but not marked so"
                     : "is marked as the last weight gradient of its stage, but is not");
    }
  }

  const Program& program_;
  const StepGraph& graph_;
  std::vector<Violation>& found_;
  // By rank and position: already taken for something the step needs.
  std::vector<std::vector<char>> used_;
  std::vector<int> position_of_action_;
};

}  // namespace

void check_collectives(const Program& program, const StepGraph& graph, std::vector<Violation>& found) {
  CollectiveCheck(program, graph, found).run();
}

}  // namespace penstock::schedule
