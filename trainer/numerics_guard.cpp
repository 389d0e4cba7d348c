#include "trainer/numerics_guard.h"

#include <cmath>

#include <fmt/format.h>

namespace penstock {

NumericsGuard::NumericsGuard(const RankContext& context, StepBatches& batches)
    : context_(context),
      batches_(batches),
      spikes_(context.job.numerics.spike_z, context.job.numerics.spike_window),
      loss_scaler_(context.job) {}

void NumericsGuard::wish(const StepSummary& result, Decision& wishes) {
  if (!std::isfinite(result.loss) || !result.applied) {
    if (!lowers_scale(result)) judge_nonfinite(result, wishes);
    return;
  }
  if (loss_scaler_.succeeded()) {
    context_.reports.event("loss_scale", result.step,
                           {{"from", result.loss_scale}, {"to", loss_scaler_.scale()}, {"why", "growth"}});
  }
  if (context_.job.numerics.on_spike != NumericsPolicy::ignore) {
    judge_spike(result, wishes);
  }
}

// The forward pass knows no scale: a loss that is not finite is another matter.
bool NumericsGuard::lowers_scale(const StepSummary& result) {
  if (!std::isfinite(result.loss) || !loss_scaler_.overflowed()) return false;
  context_.reports.event("loss_scale", result.step,
                         {{"from", result.loss_scale}, {"to", loss_scaler_.scale()}, {"why", "overflow"}});
  context_.reports.note(
      fmt::format("step {}: gradients overflowed at a loss scale of {}; no weight was "
                  "changed, and the scale is {} from now on",
                  result.step, result.loss_scale, loss_scaler_.scale()));
  return true;
}

void NumericsGuard::judge_nonfinite(const StepSummary& result, Decision& wishes) {
  const int64_t step = result.step - 1;
  const auto finding = context_.engine->find_nonfinite(batches_.of(step).bands());
  std::string where =
      "running the step again showed no such value in any unit: memory or hardware may be at fault";
  nlohmann::json details{{"loss", std::isfinite(result.loss)},
                         {"gradient_norm", std::isfinite(result.gradient_norm)}};
  if (finding) {
    const int64_t first =
        batches_.first_sample(step, finding->replica, static_cast<int64_t>(finding->micro_batch));
    where = fmt::format("first in unit {}, {} ({} values), micro-batch {} (samples {} to {})",
                        finding->where.unit_name, finding->where.what, finding->where.count,
                        finding->micro_batch, first, first + context_.job.batch.micro - 1);
    details["unit"] = finding->where.unit_name;
    details["what"] = finding->where.what;
    details["micro_batch"] = finding->micro_batch;
  }
  if (loss_scaler_.active()) {
    where += fmt::format("; the loss scale is {} (loss_scaling.minimum = {})", result.loss_scale,
                         context_.job.loss_scaling.minimum);
  }
  const bool stops = context_.job.numerics.on_nonfinite != NumericsPolicy::skip;
  const std::string text =
      fmt::format("step {}: NaN or infinity (loss {}, gradient norm {}); {}; no weight was changed",
                  result.step, result.loss, result.gradient_norm, where);
  context_.reports.warning(text);
  context_.reports.event("nonfinite", result.step, details);
  if (!stops) return;
  wishes.stop = true;
  wishes.code = ExitCode::numerics;
  wishes.reason = text + " (numerics.on_nonfinite = \"stop\")";
}

void NumericsGuard::judge_spike(const StepSummary& result, Decision& wishes) {
  const auto distance = spikes_.judge(result.loss);
  if (!distance) return;
  const std::string text =
      fmt::format("step {}: loss {:.4f} lies {:.1f} standard deviations above the recent ones", result.step,
                  result.loss, *distance);
  context_.reports.warning(text);
  context_.reports.event("spike", result.step, {{"loss", result.loss}, {"z", *distance}});
  if (context_.job.numerics.on_spike != NumericsPolicy::stop) return;
  wishes.stop = true;
  wishes.save = true;
  wishes.code = ExitCode::numerics;
  wishes.reason = text + " (numerics.on_spike = \"stop\")";
}

}  // namespace penstock
