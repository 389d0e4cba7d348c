#include "trainer/budget/actions/action.h"

namespace penstock::budget {

namespace {

/// More or fewer warm-up forwards.
class WarmupSlack : public Action {
 public:
  BudgetAction kind() const override { return BudgetAction::warmup_slack; }
  std::optional<planner::PlanRequest> request(const Situation& situation) const override {
    planner::PlanRequest request = as_it_is(situation);
    request.slack = -1;
    return request;
  }
};

}  // namespace

std::unique_ptr<Action> make_warmup_slack() {
  return std::make_unique<WarmupSlack>();
}

}  // namespace penstock::budget
