#include "trainer/replica_check.h"

#include <fmt/format.h>

#include "trainer/copy_check.h"

namespace penstock {

ReplicaCheck::ReplicaCheck(const RankContext& context) : context_(context) {
  const runtime::PipelinePlan& plan = context_.engine->plan();
  if (context_.job.numerics.replica_check_every_steps == 0 || plan.topology.replicas() > 1 ||
      plan.training.schedule.copies > 1) {
    return;
  }
  context_.reports.note(
      "numerics.replica_check_every_steps: there is one replica, and nothing to compare it with");
}

void ReplicaCheck::wish(const StepSummary& result, Decision& wishes) {
  const int64_t every = context_.job.numerics.replica_check_every_steps;
  if (every == 0 || result.step % every != 0) return;
  const watchdog::Progress::Doing at(context_.progress, watchdog::Phase::check);
  const accounting::HostTimes::Doing doing(context_.host, accounting::Part::checkpoint);
  const auto found = differing_copies(*context_.engine, context_.world);
  if (!found) return;
  const std::string text = fmt::format("step {}: {}", result.step, found->text);
  context_.reports.warning(text);
  context_.reports.event("replicas_differ", result.step,
                         {{"unit", found->unit},
                          {"what", found->what},
                          {"agreeing_ranks", found->agreeing},
                          {"differing_ranks", found->differing},
                          {"element", found->element},
                          {"reason", text}});
  wishes.stop = true;
  wishes.unfit = true;
  wishes.code = ExitCode::numerics;
  wishes.reason = text;
}

}  // namespace penstock
