#pragma once

#include "parallel/planner/plan.h"

namespace penstock::planner {

/// PlanError for sizes that do not fit each other and numbers that are none.
void check_request(const PlanRequest& request);

}  // namespace penstock::planner
