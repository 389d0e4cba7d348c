#include "trainer/budget/actions/action.h"

namespace penstock::budget {

namespace {

/// Stages rebuild more or less, as each rank has memory.
class RecomputeModes : public Action {
 public:
  BudgetAction kind() const override { return BudgetAction::recompute; }
  std::optional<planner::PlanRequest> request(const Situation& situation) const override {
    planner::PlanRequest request = as_it_is(situation);
    request.recompute.fixed.clear();
    request.recompute.allowed = situation.recompute;
    return request;
  }
};

}  // namespace

std::unique_ptr<Action> make_recompute() {
  return std::make_unique<RecomputeModes>();
}

}  // namespace penstock::budget
