// A schedule taken through the whole chain, for tests.
#pragma once

#include <string>

#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/measures.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/simulate.h"
#include "parallel/schedule/validate.h"

namespace penstock::schedule {

inline Measures simulated(const Schedule& schedule, const Costs& costs, LoweringOptions options = {}) {
  options.receive_lead = sufficient_receive_lead(schedule, costs, options);
  const Program program = lower(schedule, costs, options);
  return measure(program, simulate(program, costs));
}

// `stage` costs one chunk: whole numbers stay whole numbers, so that results can be compared with ==.
inline Costs stage_costs(const Schedule& schedule, const StageCosts& stage, double transfer = 0) {
  Costs costs;
  costs.blocks.assign(static_cast<size_t>(schedule.blocks()), stage);
  costs.links = {{transfer, 0}};
  return costs;
}

}  // namespace penstock::schedule
