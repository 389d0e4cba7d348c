#include "trainer/budget/actions/action.h"

namespace penstock::budget {

namespace {

/// Units move between ranks; stages keep their recompute modes.
class Repartition : public Action {
 public:
  BudgetAction kind() const override { return BudgetAction::repartition; }
  std::optional<planner::PlanRequest> request(const Situation& situation) const override {
    planner::PlanRequest request = as_it_is(situation);
    request.cut = planner::CutBy::measured;
    request.listed.clear();
    return request;
  }
};

}  // namespace

std::unique_ptr<Action> make_repartition() {
  return std::make_unique<Repartition>();
}

}  // namespace penstock::budget
