// The window is lowered as a whole, and cut into lists; one list of its steady state, repeated, makes the
// window anew. What then stands in another order than it was lowered in is proved like any program.
#include "parallel/schedule/rolling.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "parallel/schedule/validate.h"

namespace penstock::schedule {

namespace {

using List = std::vector<Instruction>;

class Rolling {
 public:
  Rolling(const Schedule& window, const Costs& costs, const LoweringOptions& options)
      : micro_batches_(window.micro_batches), lowered_(lower(window, costs, options)) {
    for (const RankProgram& rank : lowered_.ranks) held_over_.push_back(held_over(rank.instructions));
  }

  RollingProgram run() {
    made_.window = lowered_;
    for (size_t rank = 0; rank < lowered_.ranks.size(); ++rank) assemble(rank);
    number_places();
    number_messages();
    return std::move(made_);
  }

 private:
  // An asynchronous step ends in the list of the next: its last backwards, its sums and its optimizer step.
  // Both ends of a message stand in the list of the action that reads it, so that lists keep the order of
  // messages.
  std::vector<List> cut(size_t rank) const {
    const List& all = lowered_.ranks[rank].instructions;
    std::vector<List> lists(RollingProgram::steps + 1);
    for (const Instruction& each : all) {
      int at = each.step + 1;
      if (each.action.op == Op::forward && (each.kind == InstructionKind::compute || each.is_transfer())) {
        at = each.step;
      } else if (each.kind == InstructionKind::compute || each.is_transfer()) {
        const size_t reader = each.kind == InstructionKind::send ? static_cast<size_t>(each.peer) : rank;
        at = each.step +
             (each.action.micro_batch % micro_batches_ >= micro_batches_ - held_over_[reader] ? 1 : 0);
      }
      lists[static_cast<size_t>(at)].push_back(each);
    }
    return lists;
  }

  // How many micro-batches of a step have their backward behind the next step's first forward.
  static int held_over(const List& all) {
    int held = 0;
    bool next = false;
    for (const Instruction& each : all) {
      if (each.kind != InstructionKind::compute) continue;
      if (each.action.op == Op::forward && each.step == 1) next = true;
      if (each.action.op == Op::backward && each.step == 0 && next) ++held;
    }
    return held;
  }

  Instruction moved(Instruction instruction, int steps) const {
    const bool of_micro_batch = instruction.kind == InstructionKind::compute || instruction.is_transfer();
    if (of_micro_batch) instruction.action.micro_batch += steps * micro_batches_;
    instruction.step += steps;
    return instruction;
  }

  void assemble(size_t rank) {
    const std::vector<List> lists = cut(rank);
    List& whole = made_.window.ranks[rank].instructions;
    std::vector<int>& places = made_.lists.emplace_back();
    whole.clear();
    for (int at = 0; at <= RollingProgram::steps; ++at) {
      const bool repeats = at > RollingProgram::first && at < RollingProgram::drain;
      const int taken = repeats ? RollingProgram::steady : at;
      for (const Instruction& each : lists[static_cast<size_t>(taken)]) {
        whole.push_back(moved(each, at - taken));
        places.push_back(at);
      }
    }
  }

  // Slots and buffers in turn: each is taken and freed in the order of micro-batches.
  void number_places() {
    Program& program = made_.window;
    for (RankProgram& rank : program.ranks) {
      for (Instruction& each : rank.instructions) {
        const int number = each.action.micro_batch;
        for (Buffer* buffer : {&each.input, &each.output}) {
          if (!buffer->none()) buffer->index = number % rank.buffers[static_cast<size_t>(buffer->pool)];
        }
        if (each.kind != InstructionKind::compute) continue;
        each.slot = number % program.slots[static_cast<size_t>(each.action.stage)];
      }
    }
  }

  // Places in the global order: of all messages and sums, one that stands next on all of its ranks. Those
  // that were lowered earlier first.
  void number_messages() {
    Program& program = made_.window;
    std::vector<size_t> next(program.ranks.size(), 0);
    const auto head = [&](size_t rank) -> Instruction* {
      List& list = program.ranks[rank].instructions;
      while (next[rank] < list.size() && list[next[rank]].order < 0) ++next[rank];
      return next[rank] < list.size() ? &list[next[rank]] : nullptr;
    };
    const auto meets = [](const Instruction& a, const Instruction& b) {
      if (a.step != b.step) return false;
      if (!a.is_transfer()) return a.kind == b.kind;
      return b.is_transfer() && a.kind != b.kind && a.action == b.action;
    };
    program.orders = 0;
    for (bool more = true; more;) {
      more = false;
      for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
        Instruction* mine = head(rank);
        if (mine == nullptr) continue;
        std::vector<size_t> members{rank};
        if (mine->kind == InstructionKind::agree) {
          members.clear();
          for (size_t other = 0; other < program.ranks.size(); ++other) members.push_back(other);
        } else if (mine->peer >= 0 && mine->peer != static_cast<int>(rank)) {
          members.push_back(static_cast<size_t>(mine->peer));
        }
        const bool ready = std::all_of(members.begin(), members.end(), [&](size_t other) {
          const Instruction* theirs = head(other);
          return other == rank || (theirs != nullptr && meets(*mine, *theirs));
        });
        if (!ready) continue;
        for (const size_t other : members) {
          head(other)->order = program.orders;
          ++next[other];
        }
        ++program.orders;
        more = true;
      }
    }
    for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
      if (const Instruction* stuck = head(rank); stuck != nullptr) {
        throw ScheduleError(
            fmt::format("schedule {}: \"{}\" of rank {} meets nobody when the steps follow one another",
                        program.schedule.name, to_string(*stuck), rank));
      }
    }
  }

  int micro_batches_;
  Program lowered_;
  std::vector<int> held_over_;  // (P)
  RollingProgram made_;
};

// Which instruction of its step it is.
std::string identity(const Instruction& instruction, int micro_batches) {
  Instruction at = instruction;
  at.action.micro_batch %= micro_batches;
  return fmt::format("{} {}", static_cast<int>(at.kind), to_string(at));
}

}  // namespace

std::vector<std::vector<size_t>> places_in_step(const RollingProgram& rolling, const Program& step) {
  const int micro_batches = rolling.window.schedule.micro_batches;
  std::vector<std::vector<size_t>> all;
  for (size_t rank = 0; rank < rolling.window.ranks.size(); ++rank) {
    std::map<std::string, size_t> places;
    const List& named = step.ranks.at(rank).instructions;
    for (size_t at = 0; at < named.size(); ++at) places[identity(named[at], micro_batches)] = at;
    std::vector<size_t>& found = all.emplace_back();
    for (const Instruction& each : rolling.window.ranks[rank].instructions) {
      const auto place = places.find(identity(each, micro_batches));
      if (place == places.end()) {
        throw ScheduleError(fmt::format("schedule {}: \"{}\" of rank {} is not in the program of one step",
                                        step.schedule.name, to_string(each), rank));
      }
      found.push_back(place->second);
    }
  }
  return all;
}

RollingProgram roll(const Schedule& window, const Costs& costs, const LoweringOptions& options) {
  if (!window.asynchronous || window.steps != RollingProgram::steps || window.chunks != 1) {
    throw ScheduleError(
        fmt::format("schedule {}: {} step(s), {} chunk(s) a rank; what rolls is asynchronous, listed for {} "
                    "steps, with one chunk",
                    window.name, window.steps, window.chunks, RollingProgram::steps));
  }
  RollingProgram made = Rolling(window, costs, options).run();
  require_valid(made.window);
  return made;
}

}  // namespace penstock::schedule
