#include "trainer/budget/actions/action.h"

namespace penstock::budget {

namespace {

/// Another order of the actions, and the stages and the recomputation that go with it.
class OtherSchedule : public Action {
 public:
  BudgetAction kind() const override { return BudgetAction::schedule; }
  std::optional<planner::PlanRequest> request(const Situation& situation) const override {
    planner::PlanRequest request = as_it_is(situation);
    request.schedule = "auto";
    request.chunks = 0;
    request.slack = -1;
    cut_anew(request, situation);
    return request;
  }
};

}  // namespace

std::unique_ptr<Action> make_schedule() {
  return std::make_unique<OtherSchedule>();
}

}  // namespace penstock::budget
