#include "trainer/run_view/run_advice.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>

#include "trainer/job_costs.h"
#include "trainer/run_profile.h"
#include "trainer/run_question.h"

namespace penstock::run_view {
namespace {

// "prediction" and "costs" of a run that ended say how crowded its machine was.
double threads_per_processor(const RunState& run) {
  for (auto event = run.events().rbegin(); event != run.events().rend(); ++event) {
    const auto found = event->details.find("threads_per_processor");
    if (found != event->details.end() && found->is_number()) return found->get<double>();
  }
  return 0;
}

bool rearranged(const RunState& run) {
  return std::any_of(run.events().begin(), run.events().end(),
                     [](const RunEvent& event) { return event.name == "rearranged"; });
}

planner::PlanRequest question_of(const std::filesystem::path& folder) {
  const RunProfile measured = profile_from_run(folder);
  Backend backend = make_backend(measured.job, 0);
  return running_question(measured.job,
                          costs_from_profile(measured.job, backend, measured.profile, "this run"));
}

}  // namespace

advice::Measured measured_by(const RunState& run) {
  advice::Measured made;
  CauseSums causes;
  double all = 0;
  double steps = 0;
  double bubble = 0;
  double count = 0;
  for (const RunStep& step : run.steps()) {
    if (!step.observation || step.ranks.empty()) continue;
    for (const RankRow& row : step.ranks) causes.add(row.parts, 1 / static_cast<double>(step.ranks.size()));
    all += step.passed();
    steps += step.observation->seconds;
    bubble += step.observation->bubble_ratio * step.observation->seconds;
    ++count;
  }
  if (!(all > 0) || !(steps > 0)) return made;
  made.step = steps / count;
  made.idle = causes.idle() / all;
  made.bubble = bubble / steps;
  made.host = causes[Cause::host] / all;
  made.pause = causes[Cause::pause] / all;
  made.reduction = causes[Cause::reduction] / all;
  made.threads_per_processor = threads_per_processor(run);
  for (const RankRow& row : run.steps().back().ranks)
    made.replicas = std::max(made.replicas, row.replica + 1);
  return made;
}

advice::Advice advise_run(const std::filesystem::path& folder) {
  RunState run(folder);
  run.refresh(Surroundings::here());
  const advice::Measured measured = measured_by(run);
  if (advice::level_of(measured.idle) == advice::Level::leave_alone)
    return advice::advise(measured, std::nullopt);
  std::optional<planner::PlanRequest> question;
  std::string why;
  if (rearranged(run)) {  // plan.json has what the run began with
    return advice::advise(measured, std::nullopt, "units have moved since the run began; its end says more");
  }
  try {
    question = question_of(folder);
  } catch (const std::exception& error) {  // a device that is not here, a run of another version, …
    why = error.what();
  }
  return advice::advise(measured, question, why);
}

}  // namespace penstock::run_view
