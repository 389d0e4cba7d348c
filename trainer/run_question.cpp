#include "trainer/run_question.h"

#include "trainer/job_plan.h"
#include "trainer/memory_limit.h"

namespace penstock {

planner::PlanRequest running_question(const Job& job, const JobCosts& costs) {
  std::optional<int64_t> limit = stated_memory_limit(job);
  if (limit) limit = arena_limit(job, *limit);
  return plan_request(job, costs, limit);
}

}  // namespace penstock
