#include "parallel/runtime/slot_plan.h"

#include <algorithm>
#include <utility>

namespace penstock::runtime {

using schedule::Instruction;
using schedule::InstructionKind;
using schedule::Op;

namespace {

class Pool {
 public:
  int take() {
    const auto place = std::find(taken_.begin(), taken_.end(), false);
    const auto index = static_cast<size_t>(place - taken_.begin());
    if (place == taken_.end()) taken_.push_back(true);
    taken_[index] = true;
    return static_cast<int>(index);
  }
  void free(int index) { taken_[static_cast<size_t>(index)] = false; }
  int count() const { return std::max(1, static_cast<int>(taken_.size())); }

 private:
  std::vector<bool> taken_;
};

struct Pools {
  Pool forward;
  Pool kept;
  Pool weight;
};

}  // namespace

SlotPlan plan_slots(const schedule::Program& program, int rank) {
  const std::vector<Instruction>& list = program.ranks[static_cast<size_t>(rank)].instructions;
  const bool trains = std::any_of(list.begin(), list.end(), [](const Instruction& at) {
    return at.kind == InstructionKind::compute && gives_input_gradient(at.action.op);
  });
  std::vector<Pools> pools(program.slots.size());
  const auto micro_batches = static_cast<size_t>(program.schedule.all_micro_batches());
  std::vector<model::SlotIds> held(pools.size() * micro_batches);
  SlotPlan plan;
  for (const Instruction& at : list) {
    model::SlotIds& ids = plan.slots.emplace_back();
    if (at.kind != InstructionKind::compute) continue;
    const auto stage = static_cast<size_t>(at.action.stage);
    Pools& pool = pools[stage];
    model::SlotIds& own = held[stage * micro_batches + static_cast<size_t>(at.action.micro_batch)];
    if (at.action.op == Op::forward) {
      own.forward = pool.forward.take();
      own.kept = pool.kept.take();
    } else if (gives_input_gradient(at.action.op)) {
      own.weight = pool.weight.take();
    }
    ids = own;
    if (gives_input_gradient(at.action.op) || !trains) pool.forward.free(own.forward);
    if (gives_weight_gradient(at.action.op) || !trains) pool.kept.free(own.kept);
    if (gives_weight_gradient(at.action.op)) pool.weight.free(own.weight);
  }
  for (const Pools& pool : pools)
    plan.counts.push_back({pool.forward.count(), pool.kept.count(), pool.weight.count()});
  return plan;
}

}  // namespace penstock::runtime
