// Runs a program in simulated time: a compute, a send, a receive and a reduction stream a rank, all in order,
// transfers under rendezvous. What it predicts is what the executor does.
#pragma once

#include <vector>

#include "parallel/schedule/costs.h"
#include "parallel/schedule/program.h"

namespace penstock::schedule {

// Start and end of an instruction. A transfer ends at its arrival.
struct Span {
  double start = 0;
  double end = 0;
};

struct Timeline {
  // As the program's lists.
  std::vector<std::vector<Span>> spans;
};

// The program must be valid. Throws ScheduleError for costs that do not fit it.
Timeline simulate(const Program& program, const Costs& costs);

}  // namespace penstock::schedule
