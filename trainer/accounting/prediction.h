#pragma once

#include "parallel/schedule/costs.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/rolling.h"
#include "trainer/accounting/step_account.h"

namespace penstock::accounting {

/// A step as the simulator expects it, accounted for like a measured one.
struct Prediction {
  StepAccount account;
  StepFigures figures;
};

/// Simulates the program with these costs. schedule::ScheduleError for costs that do not fit it.
Prediction predict(const schedule::Program& program, const schedule::Costs& costs);
/// The same of a step in the midst of others that it overlaps with; `rolling` is made of `step`.
Prediction predict(const schedule::Program& step, const schedule::RollingProgram& rolling,
                   const schedule::Costs& costs);

}  // namespace penstock::accounting
