#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/planner/plan.h"
#include "trainer/budget/arrangement.h"
#include "trainer/job/bubble_budget_section.h"

namespace penstock::budget {

/// What an action has to go by: the running arrangement and what everything costs now.
struct Situation {
  const Arrangement& running;
  const Arrangement& first;                         ///< with which the run began
  const planner::Machine& machine;                  ///< paces as measured, memory limits
  const std::vector<planner::Workload>& workloads;  ///< costs as measured; indexed by Arrangement::workload
  std::array<bool, planner::recompute_modes> recompute{true, true, true};  ///< that an action may choose
  planner::SearchBudget search;
};

/// Something that may be changed while the job runs.
class Action {
 public:
  virtual ~Action() = default;
  virtual BudgetAction kind() const = 0;
  /// What the planner is asked: the running arrangement, with what this action changes left open. Nothing:
  /// there is nothing to change.
  virtual std::optional<planner::PlanRequest> request(const Situation& situation) const = 0;
};

/// By the key's name. schedule::ScheduleError for `conservative` with keys that it does not know.
std::unique_ptr<Action> make_action(BudgetAction kind, const BubbleBudgetSection& section);
const char* name_of(BudgetAction kind);

std::unique_ptr<Action> make_repartition();
std::unique_ptr<Action> make_recompute();
std::unique_ptr<Action> make_warmup_slack();
std::unique_ptr<Action> make_schedule();
std::unique_ptr<Action> make_chunks();
std::unique_ptr<Action> make_micro_batch();
std::unique_ptr<Action> make_conservative(const std::map<std::string, std::string>& keys);

/// The running arrangement as a request that leaves nothing open.
planner::PlanRequest as_it_is(const Situation& situation);
/// Leaves open where stages end, and which recompute modes go with them.
void cut_anew(planner::PlanRequest& request, const Situation& situation);

/// Arrangements that an action offers.
struct Proposals {
  std::vector<planner::Candidate> candidates;  ///< that fit in memory, are shorter, and are not the running
                                               ///< one; best first
  std::string refusal;                         ///< why the planner could not, if so
};
inline constexpr size_t most_proposals = 3;
Proposals propose(const Action& action, const Situation& situation);

}  // namespace penstock::budget
