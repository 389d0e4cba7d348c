#include "trainer/budget/actions/action.h"

namespace penstock::budget {

namespace {

/// The same schedule with more or fewer stages a rank, which are cut again.
class Chunks : public Action {
 public:
  BudgetAction kind() const override { return BudgetAction::chunks; }
  std::optional<planner::PlanRequest> request(const Situation& situation) const override {
    planner::PlanRequest request = as_it_is(situation);
    request.chunks = 0;
    cut_anew(request, situation);
    return request;
  }
};

}  // namespace

std::unique_ptr<Action> make_chunks() {
  return std::make_unique<Chunks>();
}

}  // namespace penstock::budget
