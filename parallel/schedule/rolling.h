// A schedule without a flush, step after step without end: what each rank enqueues when a step begins, behind
// a step that is still under way or behind none, and to end the last one. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "parallel/schedule/program.h"

namespace penstock::schedule {

// A rank's lists, one a step: with its step's forwards stand the backwards that fall between them, of that
// step and of the step before. Micro-batch i of the run (counted from its first step) takes slot i mod slots
// of its stage, and buffer i mod buffers of a pool, so that one list serves every step.
struct RollingProgram {
  // Enough steps for a start, two in the steady state, two more, and the drain: valid as a whole.
  static constexpr int steps = 6;
  Program window;
  // (P, instructions of the rank): the list that an instruction stands in: that of step 0 … steps − 1;
  // `steps`: the drain, what is left of the last step.
  std::vector<std::vector<int>> lists;

  // Steps whose lists are taken for those of a step behind a drain, and behind another step.
  static constexpr int first = 0;
  static constexpr int steady = 2;
  static constexpr int drain = steps;
};

// `window`: an asynchronous schedule of RollingProgram::steps steps, with one chunk a rank. Throws
// ScheduleError for another, and for what lower() does not take.
RollingProgram roll(const Schedule& window, const Costs& costs, const LoweringOptions& options);

// (P, instructions of the rank): where each instruction of the window stands in the rank's list of `step`,
// the program of one step. Throws ScheduleError where the two do not fit together.
std::vector<std::vector<size_t>> places_in_step(const RollingProgram& rolling, const Program& step);

}  // namespace penstock::schedule
