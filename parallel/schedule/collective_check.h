// The validator's part for what follows the weight gradients.
#pragma once

#include <vector>

#include "parallel/schedule/program.h"
#include "parallel/schedule/step_graph.h"
#include "parallel/schedule/validate.h"

namespace penstock::schedule {

// Sums, reductions, optimizer steps and gathers: those that the step needs, each once, behind what they wait
// for; and the marks of the last weight gradients. `program.schedule` lists the program's compute
// instructions.
void check_collectives(const Program& program, const StepGraph& graph, std::vector<Violation>& found);

}  // namespace penstock::schedule
