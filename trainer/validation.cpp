#include "trainer/validation.h"

#include <cmath>

#include <fmt/format.h>

namespace penstock {

Validation::Validation(const Job& job, runtime::LocalEngine& engine, Corpus& corpus, RunReports& reports)
    : job_(job), engine_(engine), corpus_(corpus), reports_(reports) {}

void Validation::wish(const StepSummary& result, Decision& wishes) {
  const int64_t every = job_.evaluation.every_steps;
  wishes.evaluate |= every > 0 && (result.step % every == 0 || wishes.finished);
}

void Validation::act(const StepSummary& result, const Decision& decision) {
  // A run that must leave does not first spend minutes on an evaluation; a finished one does.
  if (!decision.evaluate || (decision.stop && !decision.finished)) return;
  if (corpus_.validation() == nullptr || job_.evaluation.batches == 0) {
    reports_.warning(
        "an evaluation was asked for, but the job has no data.validation or evaluation.batches is 0");
    return;
  }
  const EvaluationResult evaluation =
      evaluate(engine_, corpus_, job_, job_.evaluation.batches * job_.batch.global);
  reports_.note(fmt::format("step {}: validation loss {:.4f} (perplexity {:.2f}) over {} tokens, {:.1f} s",
                            result.step, evaluation.loss, std::exp(evaluation.loss), evaluation.tokens,
                            evaluation.seconds));
  reports_.event("evaluation", result.step,
                 {{"loss", evaluation.loss}, {"tokens", evaluation.tokens}, {"seconds", evaluation.seconds}});
  reports_.scalar("validation_loss", evaluation.loss, result.step);
}

}  // namespace penstock
