#include "trainer/commands/plan_shown_only.h"

#include <algorithm>
#include <utility>

#include "parallel/planner/cut.h"
#include "parallel/planner/predict.h"
#include "parallel/planner/rank_memory.h"
#include "parallel/planner/unit_sums.h"
#include "parallel/planner/variants.h"
#include "parallel/runtime/partition.h"
#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/simulate.h"

namespace penstock::commands {

namespace {

constexpr double most_actions = 1e5;

// Windows that a steady state shows in.
constexpr int steady_steps = 4;

planner::Prediction predict(const planner::PlanRequest& request, const planner::UnitSums& sums,
                            const schedule::Schedule& made, planner::Layout& layout) {
  const planner::Workload& workload = request.workloads[0];
  // The least that the job allows.
  const auto& allowed = request.recompute.allowed;
  const auto mode =
      static_cast<planner::Recompute>(std::find(allowed.begin(), allowed.end(), true) - allowed.begin());
  layout.units = planner::cut_evenly(runtime::unit_seconds(workload.model, mode), made.blocks());
  layout.recompute.assign(layout.units.size(), mode);
  const schedule::Costs costs = layout_costs(sums, request.machine, made, layout);
  schedule::LoweringOptions options;
  options.reduce_gradients = request.machine.replicas > 1;
  options.receive_lead = sufficient_receive_lead(made, costs, options);
  const schedule::Program program = lower(made, costs, options);
  const schedule::Timeline timeline = simulate(program, costs);
  planner::Prediction prediction;
  prediction.measures =
      made.asynchronous ? measure_steady_state(program, timeline) : measure(program, timeline);
  planner::complete(
      prediction, request.machine,
      static_cast<double>(workload.model.tokens) * workload.micro_batches * request.machine.replicas);
  return prediction;
}

}  // namespace

std::vector<planner::Candidate> shown_only(const planner::PlanRequest& request) {
  std::vector<planner::Candidate> all;
  const planner::UnitSums sums(request.workloads[0].model);
  for (const schedule::ScheduleKind& kind : schedule::schedule_kinds()) {
    if (kind.copies == 1 && kind.versions == 1) continue;
    planner::Candidate shown;
    shown.schedule = kind.name;
    shown.chunks = kind.default_chunks;
    shown.refusal = kind.copies > 1 ? planner::by_name_only : planner::asynchronous_by_name_only;
    schedule::ScheduleOptions options;
    options.ranks = request.machine.ranks;
    options.micro_batches = request.workloads[0].micro_batches;
    if (kind.versions > 1) options.steps = steady_steps;
    const double actions = 4.0 * options.ranks * options.micro_batches * options.steps;
    try {
      if (actions > most_actions)
        shown.refusal += "; too many actions to show here";
      else
        shown.prediction = predict(request, sums, schedule::generate(kind.name, options), shown.layout);
    } catch (const schedule::ScheduleError& error) {
      shown.refusal = error.what();
    } catch (const planner::PartitionError& error) {
      shown.refusal = error.what();
    }
    all.push_back(std::move(shown));
  }
  return all;
}

}  // namespace penstock::commands
