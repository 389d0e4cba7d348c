#include "trainer/budget/actions/action.h"

#include <algorithm>

#include "parallel/planner/cut.h"
#include "parallel/schedule/schedule.h"

namespace penstock::budget {

using planner::Candidate;
using planner::PlanRequest;

std::unique_ptr<Action> make_action(BudgetAction kind, const BubbleBudgetSection& section) {
  switch (kind) {
    case BudgetAction::repartition:
      return make_repartition();
    case BudgetAction::recompute:
      return make_recompute();
    case BudgetAction::warmup_slack:
      return make_warmup_slack();
    case BudgetAction::schedule:
      return make_schedule();
    case BudgetAction::chunks:
      return make_chunks();
    case BudgetAction::micro_batch:
      return make_micro_batch();
    case BudgetAction::conservative:
      return make_conservative(section.conservative);
  }
  throw schedule::ScheduleError("an action of the bubble budget that there is not");
}

const char* name_of(BudgetAction kind) {
  for (const auto& [name, each] : kBudgetActionNames) {
    if (each == kind) return name.data();
  }
  return "?";
}

PlanRequest as_it_is(const Situation& situation) {
  const Arrangement& running = situation.running;
  PlanRequest request;
  request.machine = situation.machine;
  request.workloads = {situation.workloads[running.workload]};
  request.schedule = running.schedule;
  request.chunks = running.chunks;
  request.slack = running.slack;
  request.cut = planner::CutBy::listed;
  request.listed = running.layout.units;
  request.recompute.fixed = running.layout.recompute;
  request.budget = situation.search;
  return request;
}

void cut_anew(PlanRequest& request, const Situation& situation) {
  request.cut = planner::CutBy::measured;
  request.listed.clear();
  request.recompute.fixed.clear();
  request.recompute.allowed = situation.recompute;
}

Proposals propose(const Action& action, const Situation& situation) {
  const std::optional<PlanRequest> request = action.request(situation);
  Proposals made;
  if (!request) return made;
  try {
    for (const Candidate& each : planner::make_plan(*request).schedules) {
      if (!each.refusal.empty() || !each.prediction.fits) continue;
      Candidate candidate = each;
      if (request->workloads.size() == 1) candidate.workload = situation.running.workload;
      if (arrangement_of(candidate) == situation.running) continue;
      made.candidates.push_back(std::move(candidate));
      if (made.candidates.size() == most_proposals) break;
    }
  } catch (const planner::PlanError& error) {
    made.refusal = error.what();
  } catch (const planner::PartitionError& error) {
    made.refusal = error.what();
  } catch (const schedule::ScheduleError& error) {
    made.refusal = error.what();
  }
  return made;
}

}  // namespace penstock::budget
