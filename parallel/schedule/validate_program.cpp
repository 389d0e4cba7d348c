#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "parallel/schedule/collective_check.h"
#include "parallel/schedule/rendezvous.h"
#include "parallel/schedule/validate.h"

namespace penstock::schedule {

namespace {

// What a buffer holds: an action's result.
using Content = std::optional<Action>;

bool same_result(const Content& content, int stage, const Action& reader) {
  return content && content->stage == stage && content->micro_batch == reader.micro_batch &&
         (content->op == Op::forward) == (reader.op == Op::forward);
}

std::string holds(const Content& content) {
  return content ? "holds " + to_string(*content) : "is empty";
}

// By stage and slot: the micro-batch it holds, −1 for none. A stage has one rank, so that all ranks can share
// them.
struct StageSlots {
  std::vector<std::vector<int>> activation;
  std::vector<std::vector<int>> weight;

  explicit StageSlots(const Program& program) {
    for (const int count : program.slots)
      activation.emplace_back(static_cast<size_t>(std::max(0, count)), -1);
    for (const int count : program.weight_slots)
      weight.emplace_back(static_cast<size_t>(std::max(0, count)), -1);
  }
};

// Follows one rank's list and keeps account of its slots and buffers.
class RankCheck {
 public:
  RankCheck(const Program& program, const StepGraph& graph, int rank, StageSlots& slots,
            std::vector<Violation>& found)
      : program_(program),
        graph_(graph),
        schedule_(program.schedule),
        rank_(rank),
        slots_(slots),
        found_(found) {
    for (size_t pool = 0; pool < buffer_pools; ++pool) {
      buffers_[pool].resize(static_cast<size_t>(std::max(0, list().buffers[pool])));
    }
  }

  void run() {
    int order = -1;
    for (position_ = 0; position_ < static_cast<int>(list().instructions.size()); ++position_) {
      const Instruction& at = instruction();
      if (at.order >= 0) {
        if (at.order >= program_.orders) {
          report(fmt::format("place {} in the global order of {}", at.order, program_.orders));
        }
        if (at.order <= order)
          report(fmt::format("place {} in the global order comes after place {}", at.order, order));
        order = std::max(order, at.order);
      } else if (at.is_transfer() || at.kind == InstructionKind::reduce_gradients ||
                 at.kind == InstructionKind::gather_parameters) {
        report("has no place in the global order");
      }
      switch (at.kind) {
        case InstructionKind::compute:
          check_compute(at);
          break;
        case InstructionKind::send:
          check_send(at);
          break;
        case InstructionKind::receive:
          check_receive(at);
          break;
        default:
          break;
      }
    }
    for (size_t pool = 0; pool < buffer_pools; ++pool) {
      for (size_t i = 0; i < buffers_[pool].size(); ++i) {
        if (!buffers_[pool][i]) continue;
        found_.push_back({rank_, -1, fmt::format("{} buffer {}", to_string(static_cast<BufferPool>(pool)), i),
                          holds(buffers_[pool][i]) + " at the end: nothing read it"});
      }
    }
  }

 private:
  const RankProgram& list() const { return program_.ranks[static_cast<size_t>(rank_)]; }
  const Instruction& instruction() const { return list().instructions[static_cast<size_t>(position_)]; }
  int owner(int stage) const { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; }

  void report(std::string reason) {
    if (found_.size() < max_violations) {
      found_.push_back({rank_, position_, to_string(instruction()), std::move(reason)});
    }
  }

  Content* find(const Buffer& buffer, const char* use) {
    auto& pool = buffers_[static_cast<size_t>(buffer.pool)];
    if (!buffer.none() && static_cast<size_t>(buffer.index) < pool.size())
      return &pool[static_cast<size_t>(buffer.index)];
    report(fmt::format("{} buffer {} of {}, which has {}", use, buffer.index, to_string(buffer.pool),
                       pool.size()));
    return nullptr;
  }

  // Takes the result of `stage` that this action reads out of its buffer.
  void read(const Buffer& buffer, int stage, bool keep) {
    Content* content = find(buffer, "reads");
    if (content == nullptr) return;
    if (!same_result(*content, stage, instruction().action)) {
      report(fmt::format("reads the result of stage {} on micro-batch {}, but {} buffer {} {}", stage,
                         instruction().action.micro_batch, to_string(buffer.pool), buffer.index,
                         holds(*content)));
    } else if (!keep) {
      content->reset();
    }
  }

  void write(const Buffer& buffer, const Action& result) {
    Content* content = find(buffer, "writes");
    if (content == nullptr) return;
    if (*content) {
      report(fmt::format("overwrites {} buffer {}, which still {}", to_string(buffer.pool), buffer.index,
                         holds(*content)));
    }
    *content = result;
  }

  void fill(std::vector<int>& slots, int slot, const char* what) {
    if (slot < 0 || static_cast<size_t>(slot) >= slots.size()) {
      report(fmt::format("takes {} slot {} of {}", what, slot, slots.size()));
    } else if (slots[static_cast<size_t>(slot)] >= 0) {
      report(fmt::format("overwrites {} slot {}, which still holds micro-batch {}", what, slot,
                         slots[static_cast<size_t>(slot)]));
    } else {
      slots[static_cast<size_t>(slot)] = instruction().action.micro_batch;
    }
  }

  void drain(std::vector<int>& slots, int slot, const char* what) {
    if (slot < 0 || static_cast<size_t>(slot) >= slots.size()) {
      report(fmt::format("reads {} slot {} of {}", what, slot, slots.size()));
    } else if (slots[static_cast<size_t>(slot)] != instruction().action.micro_batch) {
      report(fmt::format("reads {} slot {}, which holds {}", what, slot,
                         slots[static_cast<size_t>(slot)] < 0
                             ? std::string("nothing")
                             : fmt::format("micro-batch {}", slots[static_cast<size_t>(slot)])));
    } else {
      slots[static_cast<size_t>(slot)] = -1;
    }
  }

  void check_compute(const Instruction& at) {
    const auto stage = static_cast<size_t>(at.action.stage);
    switch (at.action.op) {
      case Op::forward:
        fill(slots_.activation[stage], at.slot, "activation");
        break;
      case Op::backward:
        drain(slots_.activation[stage], at.slot, "activation");
        break;
      case Op::backward_input:
        drain(slots_.activation[stage], at.slot, "activation");
        fill(slots_.weight[stage], at.weight_slot, "weight-gradient");
        break;
      case Op::backward_weight:
        drain(slots_.weight[stage], at.weight_slot, "weight-gradient");
        break;
    }
    const int source = graph_.source_stage(at.action);
    if (source >= 0) {
      read(at.input, source, false);
    } else if (!at.input.none()) {
      report("reads a buffer, though no stage comes before it");
    }
    if (graph_.target_stage(at.action) >= 0) {
      write(at.output, at.action);
    } else if (!at.output.none()) {
      report("writes a buffer, though no stage comes after it");
    }
  }

  // The result's next stage; −1, and a report, if it has none or that is not on `expected`.
  void check_ends(const Instruction& at, int source_rank, int destination_rank) {
    const Action& result = at.action;
    if (result.stage < 0 || result.stage >= schedule_.stages())
      return report("carries the result of an unknown stage");
    const int target = graph_.target_stage(result);
    if (target < 0) return report("carries a result that no stage reads");
    if (owner(result.stage) != source_rank || owner(target) != destination_rank) {
      report(fmt::format("goes from rank {} to rank {}, but its stages are on {} and {}", source_rank,
                         destination_rank, owner(result.stage), owner(target)));
    }
  }

  void check_send(const Instruction& at) {
    check_ends(at, rank_, at.peer);
    if (!at.output.none()) report("writes a buffer, though it only reads one");
    read(at.input, at.action.stage, false);
  }

  void check_receive(const Instruction& at) {
    check_ends(at, at.peer, rank_);
    if (!at.input.none()) report("reads a buffer, though it only writes one");
    write(at.output, at.action);
    // How many actions ahead of its reader it stands.
    int ahead = 0;
    bool in_pair = false;
    for (size_t i = static_cast<size_t>(position_) + 1; i < list().instructions.size(); ++i) {
      const Instruction& later = list().instructions[i];
      if (later.kind != InstructionKind::compute) continue;
      if (later.input == at.output) break;
      in_pair = program_.options.fuse_pairs && later.action.paired && !in_pair;
      if (!in_pair && ++ahead > program_.options.receive_lead) {
        report(fmt::format("is posted more than {} action(s) ahead of its reader",
                           program_.options.receive_lead));
        break;
      }
    }
  }

  const Program& program_;
  const StepGraph& graph_;
  const Schedule& schedule_;
  int rank_;
  StageSlots& slots_;
  std::vector<Violation>& found_;
  int position_ = 0;
  std::array<std::vector<Content>, buffer_pools> buffers_;
};

}  // namespace

std::vector<Violation> validate(const Program& program) {
  const Schedule& given = program.schedule;
  const size_t stages = static_cast<size_t>(std::max(0, given.stages()));
  if (program.ranks.size() != static_cast<size_t>(given.ranks) || program.slots.size() != stages ||
      program.weight_slots.size() != stages) {
    return {{0, -1, "the program",
             fmt::format("has {} lists and slots of {} stages for {} ranks and {} stages",
                         program.ranks.size(), program.slots.size(), given.ranks, stages)}};
  }
  // The compute instructions are the schedule that will run, whatever program.schedule says.
  Program checked = program;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    auto& actions = checked.schedule.actions;
    actions.resize(program.ranks.size());
    actions[rank].clear();
    for (const Instruction& instruction : program.ranks[rank].instructions) {
      if (instruction.kind == InstructionKind::compute) actions[rank].push_back(instruction.action);
    }
  }
  std::vector<Violation> found = validate(checked.schedule);
  if (!found.empty()) return found;
  for (const RankProgram& list : program.ranks) {
    for (const Instruction& each : list.instructions) {
      const bool known = each.peer >= -1 && each.peer < given.ranks && each.action.stage >= 0 &&
                         each.action.stage < given.stages();
      if (known) continue;
      return {{static_cast<int>(&list - program.ranks.data()),
               static_cast<int>(&each - list.instructions.data()), to_string(each),
               "names a rank or a stage that does not exist"}};
    }
  }

  const StepGraph graph(checked.schedule);
  StageSlots slots(checked);
  for (int rank = 0; rank < given.ranks; ++rank) RankCheck(checked, graph, rank, slots, found).run();
  check_collectives(checked, graph, found);
  const Wiring wiring = wire(checked, found);
  if (!found.empty()) return found;
  for (const QueueLayout layout : {QueueLayout::one_communication, QueueLayout::send_and_receive,
                                   QueueLayout::by_payload, QueueLayout::serial}) {
    found = run_to_end(checked, wiring, layout);
    if (!found.empty()) break;
  }
  return found;
}

}  // namespace penstock::schedule
