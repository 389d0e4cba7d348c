#include "tests/trainer/budget/replayed_run.h"

#include <utility>

#include "parallel/planner/profile.h"

namespace penstock::budget {

using planner::PlanRequest;

namespace {

constexpr int ranks = 8;
constexpr int micro_batches = 80;

PlanRequest plain_request(const Truth& truth) {
  PlanRequest request;
  request.machine = truth.machine;
  request.workloads = {truth.workloads[0]};
  request.schedule = "1f1b";
  request.slack = 0;
  request.chunks = 1;
  return request;
}

}  // namespace

MissionCase::MissionCase(const std::string& name) {
  const planner::Profile profile = planner::read_profile_file(
      std::string(PENSTOCK_SOURCE_DIR) + "/tests/parallel/planner/fixtures/profiles/" + name + ".json");
  truth.machine.ranks = ranks;
  truth.machine.links = planner::link_costs(profile, ranks);
  truth.machine.pace.assign(ranks, 1);
  truth.workloads = {{planner::model_costs(profile, 1), micro_batches}};
  truth.machine.memory_limit = {prediction(by_layers()).peak_memory * 102 / 100};
}

Arrangement MissionCase::by_layers() const {
  PlanRequest request = plain_request(truth);
  request.cut = planner::CutBy::layers;
  request.recompute.allowed = {true, false, false};
  return arrangement_of(planner::make_plan(request).chosen);
}

planner::Prediction MissionCase::prediction(const Arrangement& arrangement) const {
  PlanRequest request = plain_request(truth);
  request.schedule = arrangement.schedule;
  request.chunks = arrangement.chunks;
  request.slack = arrangement.slack;
  request.cut = planner::CutBy::listed;
  request.listed = arrangement.layout.units;
  request.recompute.fixed = arrangement.layout.recompute;
  return planner::make_plan(request).chosen.prediction;
}

Arrangement MissionCase::balanced() const {
  PlanRequest request = plain_request(truth);
  request.budget = {2e7, 2e4};
  return arrangement_of(planner::make_plan(request).chosen);
}

Arrangement MissionCase::best() const {
  PlanRequest request;
  request.machine = truth.machine;
  request.workloads = truth.workloads;
  request.budget = {2e7, 2e4};
  return arrangement_of(planner::make_plan(request).chosen);
}

Arrangement MissionCase::best_cut(const planner::Machine& machine, const Arrangement& like) const {
  PlanRequest request = plain_request(truth);
  request.machine = machine;
  request.schedule = like.schedule;
  request.slack = like.slack;
  request.chunks = like.chunks;
  request.recompute.fixed = like.layout.recompute;
  return arrangement_of(planner::make_plan(request).chosen);
}

ControllerOptions MissionCase::options(const Arrangement& first, std::vector<BudgetAction> actions) const {
  ControllerOptions made;
  made.budget.bubble_ratio = 1e-6;
  made.budget.actions = std::move(actions);
  made.machine = truth.machine;
  made.workloads = truth.workloads;
  made.first = first;
  return made;
}

ReplayedRun::ReplayedRun(const Truth& truth, ControllerOptions options)
    : truth_(truth),
      controller_(std::move(options)),
      pipeline_(std::make_unique<DrawnPipeline>(controller_.running(), truth)) {}

void ReplayedRun::run_to(int64_t last) {
  while (step_ < last) {
    Verdict verdict = controller_.observe(last_ = pipeline_->draw(++step_));
    for (BudgetEvent& event : verdict.events) {
      if (!applied_.empty() && (event.name == "budget_kept" || event.name == "budget_rolled_back")) {
        applied_.back().ended = step_;
        applied_.back().kept = event.name == "budget_kept";
      }
      events_.push_back(std::move(event));
    }
    if (verdict.command == Verdict::Command::go_on) continue;
    if (verdict.command == Verdict::Command::apply)
      applied_.push_back({step_, running(), *verdict.arrangement});
    pipeline_ = std::make_unique<DrawnPipeline>(*verdict.arrangement, truth_);
  }
}

double mean_step(const Arrangement& arrangement, Truth truth, int64_t steps, uint64_t seed) {
  truth.noise.seed = seed;
  truth.noise.correlation = 0;
  DrawnPipeline pipeline(arrangement, truth);
  double sum = 0;
  for (int64_t step = 1; step <= steps; ++step) sum += pipeline.draw(step).seconds;
  return sum / static_cast<double>(steps);
}

}  // namespace penstock::budget
