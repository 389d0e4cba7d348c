#include "trainer/budget/actions/action.h"

namespace penstock::budget {

namespace {

/// Another micro-batch size at the same batch. Sums are rounded otherwise: the only action that is seen in
/// the loss.
class MicroBatch : public Action {
 public:
  BudgetAction kind() const override { return BudgetAction::micro_batch; }
  std::optional<planner::PlanRequest> request(const Situation& situation) const override {
    if (situation.workloads.size() < 2) return std::nullopt;
    planner::PlanRequest request = as_it_is(situation);
    request.workloads = situation.workloads;
    return request;
  }
};

}  // namespace

std::unique_ptr<Action> make_micro_batch() {
  return std::make_unique<MicroBatch>();
}

}  // namespace penstock::budget
