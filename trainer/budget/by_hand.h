// What somebody asks of the budget's actions by hand, through the run's control folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/budget/actions/action.h"

namespace penstock::budget {

/// A request in words, by line:
///
///     repartition [UNITS ...]      cut by the costs measured now, or so many units for each stage
///     recompute [MODE ...]         none, selective or full: one for all stages, or one each
///     warmup_slack [N]
///     schedule [NAME [CHUNKS]]
///     chunks [N]
///     micro_batch [N]              only where the budget allows it: it changes rounding
///     conservative                 what the job falls back to
///     revert                       the arrangement before the last change
///
/// Where values are left out the planner chooses, as the action does; what follows from them is chosen too.
struct HandRequest {
  std::optional<BudgetAction> action;  ///< nothing: revert
  std::vector<std::string> values;
};

/// std::invalid_argument naming the word that is wrong and what may stand there.
HandRequest read_request(const std::string& text);

/// What the planner is asked. std::invalid_argument for values that the action does not take.
planner::PlanRequest request_by_hand(const HandRequest& request, const Situation& situation,
                                     const BubbleBudgetSection& section);

}  // namespace penstock::budget
