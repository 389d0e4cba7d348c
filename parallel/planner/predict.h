#pragma once

#include "parallel/planner/plan.h"

namespace penstock::planner {

/// Sets what follows from measures and memory. `tokens`: of a micro-batch; `fits` and the peak from `memory`.
void complete(Prediction& prediction, const Machine& machine, double tokens_per_step);

/// What the step's graph says of a layout (see Prediction::simulated).
Prediction predict_by_graph(LayoutScorer& scorer, const Layout& layout);

/// A lowered and simulated step, and what it was lowered with.
struct SimulatedStep {
  Prediction prediction;
  schedule::Costs costs;
  schedule::LoweringOptions options;
  std::vector<BoundaryBuffers> buffers;  ///< (P): the most of training and evaluation
};

/// Lowers the layout as the executor would and simulates the program.
SimulatedStep predict_by_program(const LayoutScorer& scorer, const Layout& layout);

/// Cuts a step's time into its parts.
StepParts step_parts(LayoutScorer& scorer, const Layout& layout, const Prediction& prediction);

/// The stages of a layout.
std::vector<StagePlan> stage_plans(const LayoutScorer& scorer, const Layout& layout);

}  // namespace penstock::planner
