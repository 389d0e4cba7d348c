// What an accountant needs to know of a program: which instructions each action waits for.
#include <map>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "parallel/schedule/wiring.h"
#include "trainer/accounting/accountant.h"

namespace penstock::accounting {

using schedule::InstructionKind;

namespace {

// The message that is ahead of this one on its stream; −1: none.
int before_in_queue(const schedule::Program& program, const schedule::Wiring& wiring, int id) {
  const int first = wiring.first[static_cast<size_t>(wiring.rank_of(id))];
  const InstructionKind kind = wiring.at(program, id).kind;
  while (--id >= first) {
    if (wiring.at(program, id).kind == kind) return id;
  }
  return -1;
}

}  // namespace

Accountant::Accountant(const schedule::Program& program)
    : stages_by_rank_(program.schedule.stages_by_rank()),
      blocks_(program.schedule.blocks()),
      holds_(program.ranks.size(), static_cast<size_t>(program.schedule.stages())),
      tracing_(program.ranks.size()) {
  if (program.schedule.steps != 1) {
    throw UsageError(fmt::format("schedule {}: its steps overlap, and one alone cannot be accounted for",
                                 program.schedule.name));
  }
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) all_ranks_.push_back(static_cast<int>(rank));
  std::vector<schedule::Violation> found;
  const schedule::Wiring wiring = wire(program, found);
  if (!found.empty()) throw UsageError(found.front().text());
  const auto local = [&](int id) {
    return id < 0 ? -1 : id - wiring.first[static_cast<size_t>(wiring.rank_of(id))];
  };
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    RankWork& rank = ranks_.emplace_back();
    const auto& list = program.ranks[r].instructions;
    rank.instructions = list.size();
    std::map<int, int> gathers;  // by stage, until its first forward
    for (size_t at = 0; at < list.size(); ++at) {
      if (list[at].kind == InstructionKind::gather_parameters)
        gathers[list[at].action.stage] = static_cast<int>(at);
    }
    for (size_t at = 0; at < list.size(); ++at) {
      if (list[at].kind == InstructionKind::optimizer_step) rank.optimizer = static_cast<int>(at);
      if (list[at].kind != InstructionKind::compute) continue;
      Work work;
      work.at = at;
      work.op = list[at].action.op;
      work.stage = list[at].action.stage;
      work.micro_batch = list[at].action.micro_batch;
      const auto& waits = wiring.waits_for[static_cast<size_t>(wiring.first[r]) + at];
      if (waits[0] >= 0 && wiring.at(program, waits[0]).kind == InstructionKind::receive) {
        const int send = wiring.partner[static_cast<size_t>(waits[0])];
        work.receive = local(waits[0]);
        work.source = wiring.rank_of(send);
        work.producer = local(wiring.waits_for[static_cast<size_t>(send)][0]);
        work.sent = local(send);
        const int earlier = before_in_queue(program, wiring, waits[0]);
        if (earlier >= 0) {
          work.receive_before = local(earlier);
          work.source_before = wiring.at(program, earlier).peer;
        }
        const int earlier_send = before_in_queue(program, wiring, send);
        if (earlier_send >= 0) {
          work.send_before = local(earlier_send);
          work.destination_before = wiring.at(program, earlier_send).peer;
        }
        work.gradient = wiring.at(program, send).carries_gradient();
      }
      if (waits[1] >= 0 && wiring.at(program, waits[1]).kind == InstructionKind::send) {
        work.send = local(waits[1]);
        work.destination = wiring.at(program, waits[1]).peer;
        work.taken = local(wiring.partner[static_cast<size_t>(waits[1])]);
      }
      if (waits[2] >= 0 && wiring.at(program, waits[2]).kind == InstructionKind::reduce_gradients)
        work.reduction = local(waits[2]);
      // Gathers are enqueued first (step_list.h). A stage's first forward waits for its first unit's.
      if (const auto found_gather = gathers.find(work.stage);
          work.op == schedule::Op::forward && found_gather != gathers.end()) {
        work.gather = found_gather->second;
        gathers.erase(found_gather);
      }
      rank.actions.push_back(work);
    }
  }
  account_.ranks.resize(ranks_.size());
  const auto stages = static_cast<size_t>(program.schedule.stages());
  account_.stage_busy.resize(stages);
  input_seconds_.resize(stages);
  first_input_.resize(stages);
  latencies_.resize(static_cast<size_t>(program.schedule.all_micro_batches()));
}

}  // namespace penstock::accounting
