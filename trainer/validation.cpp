#include "trainer/validation.h"

#include <cmath>

#include <fmt/format.h>

namespace penstock {

bool Validation::due(const Job& job, int64_t step) {
  const int64_t every = job.evaluation.every_steps;
  return every > 0 && (step % every == 0 || step == job.run.steps);
}

void Validation::wish(const StepSummary& result, Decision& wishes) {
  wishes.evaluate |= due(context_.job, result.step);
}

void Validation::act(const StepSummary& result, const Decision& decision) {
  // A run that must leave does not first spend minutes on an evaluation; a finished one does.
  if (!decision.evaluate || (decision.stop && !decision.finished)) return;
  if (context_.job.data.validation.empty() || context_.job.evaluation.batches == 0) {
    context_.reports.warning(
        "an evaluation was asked for, but the job has no data.validation or evaluation.batches is 0");
    return;
  }
  const watchdog::Progress::Doing at(context_.progress, watchdog::Phase::evaluation);
  const accounting::HostTimes::Doing doing(context_.host, accounting::Part::evaluation);
  const EvaluationResult evaluation =
      evaluate(*context_.engine, context_.world, context_.corpus, context_.job,
               context_.job.evaluation.batches * context_.job.batch.global);
  context_.reports.note(
      fmt::format("step {}: validation loss {:.4f} (perplexity {:.2f}) over {} tokens, {:.1f} s", result.step,
                  evaluation.loss, std::exp(evaluation.loss), evaluation.tokens, evaluation.seconds));
  context_.reports.event(
      "evaluation", result.step,
      {{"loss", evaluation.loss}, {"tokens", evaluation.tokens}, {"seconds", evaluation.seconds}});
  context_.reports.scalar("validation_loss", evaluation.loss, result.step);
}

}  // namespace penstock
