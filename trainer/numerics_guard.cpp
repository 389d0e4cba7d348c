#include "trainer/numerics_guard.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace penstock {
namespace {

constexpr const char* losses_state = "spike_losses";
constexpr const char* skips_state = "skips_in_a_row";
constexpr const char* samples_state = "skipped_samples";

std::string_view name_of(NumericsPolicy policy) {
  const auto* const found = std::find_if(kOnSpikeNames.begin(), kOnSpikeNames.end(),
                                         [policy](const auto& row) { return row.second == policy; });
  return found->first;
}

}  // namespace

NumericsGuard::NumericsGuard(const RankContext& context, StepBatches& batches)
    : context_(context),
      batches_(batches),
      spikes_(context.job.numerics.spike_z, context.job.numerics.spike_window),
      loss_scaler_(context.job) {}

runtime::PipelineEngine::UpdateRule NumericsGuard::update_rule() const {
  runtime::PipelineEngine::UpdateRule rule;
  if (context_.job.numerics.on_spike == NumericsPolicy::skip) rule.loss_limit = spikes_.limit();
  return rule;
}

void NumericsGuard::wish(const StepSummary& result, Decision& wishes) {
  const int64_t skips = skips_in_a_row_;
  if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm)) {
    if (lowers_scale(result)) return;
    judge_nonfinite(result, wishes);
  } else {
    if (result.applied && loss_scaler_.succeeded()) {
      context_.reports.event("loss_scale", result.step,
                             {{"from", result.loss_scale}, {"to", loss_scaler_.scale()}, {"why", "growth"}});
    }
    if (context_.job.numerics.on_spike != NumericsPolicy::ignore) judge_spike(result, wishes);
  }
  if (skips_in_a_row_ == skips) skips_in_a_row_ = 0;
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
  const NumericsPolicy policy = context_.job.numerics.on_nonfinite;
  std::optional<runtime::PipelineEngine::Finding> finding;
  {
    const watchdog::Progress::Doing at(context_.progress, watchdog::Phase::check);
    const accounting::HostTimes::Doing doing(context_.host, accounting::Part::evaluation);
    finding = context_.engine->find_nonfinite(batches_.of(step).bands());
  }
  std::string where =
      "running the step again showed no such value in any unit: memory or hardware may be at fault";
  nlohmann::json details{{"loss", std::isfinite(result.loss)},
                         {"gradient_norm", std::isfinite(result.gradient_norm)},
                         {"policy", name_of(policy)}};
  if (finding) {
    const auto samples = batches_.samples(step, finding->replica, static_cast<int64_t>(finding->micro_batch));
    const char* const direction = finding->backward ? "backward" : "forward";
    where = fmt::format(
        "first in the {} of unit {}, {} ({} values), stage {} (rank {}), replica {}, micro-batch {} (samples "
        "{} to {})",
        direction, finding->where.unit_name, finding->where.what, finding->where.count, finding->stage,
        finding->rank, finding->replica, finding->micro_batch, samples[0], samples[1]);
    details["direction"] = direction;
    details["unit"] = finding->where.unit_name;
    details["what"] = finding->where.what;
    details["count"] = finding->where.count;
    details["stage"] = finding->stage;
    details["rank"] = finding->rank;
    details["replica"] = finding->replica;
    details["micro_batch"] = finding->micro_batch;
    details["samples"] = samples;
  }
  if (loss_scaler_.active()) {
    where += fmt::format("; the loss scale is {} (loss_scaling.minimum = {})", result.loss_scale,
                         context_.job.loss_scaling.minimum);
  }
  const std::string text =
      fmt::format("step {}: NaN or infinity (loss {}, gradient norm {}); {}{}", result.step, result.loss,
                  result.gradient_norm, where, result.applied ? "" : "; no weight was changed");
  context_.reports.warning(text);
  context_.reports.event("nonfinite", result.step, details);
  // A run that goes on from here would never see it again.
  if (policy == NumericsPolicy::stop) wishes.unfit = true;
  follow(policy, "on_nonfinite", text, result.step, wishes);
}

void NumericsGuard::judge_spike(const StepSummary& result, Decision& wishes) {
  const auto distance = spikes_.judge(result.loss);
  if (!distance) return;
  const NumericsPolicy policy = context_.job.numerics.on_spike;
  const std::string text =
      fmt::format("step {}: loss {:.4f} lies {:.1f} standard deviations above the recent ones{}", result.step,
                  result.loss, *distance, result.applied ? "" : "; no weight was changed");
  context_.reports.warning(text);
  context_.reports.event("spike", result.step,
                         {{"loss", result.loss}, {"z", *distance}, {"policy", name_of(policy)}});
  if (policy == NumericsPolicy::stop) wishes.save = true;
  follow(policy, "on_spike", text, result.step, wishes);
}

void NumericsGuard::follow(NumericsPolicy policy, const std::string& key, const std::string& text,
                           int64_t step, Decision& wishes) {
  std::string why;
  switch (policy) {
    case NumericsPolicy::ignore:
    case NumericsPolicy::warn:
      return;
    case NumericsPolicy::rollback:
      wishes.rollback = true;
      return;
    case NumericsPolicy::skip:
      ++skips_in_a_row_;
      context_.reports.scalar("numerics/skips_in_a_row", static_cast<double>(skips_in_a_row_), step);
      if (skips_in_a_row_ <= context_.job.numerics.max_in_a_row) return;
      why = fmt::format("numerics.{} = \"skip\", but this is step {} in a row and numerics.max_in_a_row = {}",
                        key, skips_in_a_row_, context_.job.numerics.max_in_a_row);
      wishes.unfit = true;
      break;
    case NumericsPolicy::stop:
      why = fmt::format("numerics.{} = \"stop\"", key);
      break;
  }
  wishes.stop = true;
  wishes.code = ExitCode::numerics;
  wishes.reason = fmt::format("{} ({})", text, why);
}

void NumericsGuard::add_state(std::map<std::string, nlohmann::json>& state) const {
  state[losses_state] = spikes_.state();
  if (loss_scaler_.active()) state[loss_scale_state] = loss_scaler_.state();
  state[skips_state] = skips_in_a_row_;
  nlohmann::json ranges = nlohmann::json::array();
  for (const data::SkippedRange& range : context_.corpus.skipped().ranges())
    ranges.push_back({range.begin, range.end});
  state[samples_state] = std::move(ranges);
}

void NumericsGuard::restore(const std::map<std::string, nlohmann::json>& state) {
  const auto losses = state.find(losses_state);
  spikes_.restore(losses == state.end() ? nlohmann::json::array() : losses->second);
  // An imported model, and a run that was not in fp16, have none.
  loss_scaler_ = LossScaler(context_.job);
  const auto scale = state.find(loss_scale_state);
  if (scale != state.end() && loss_scaler_.active()) loss_scaler_.restore(scale->second);
  const auto skips = state.find(skips_state);
  skips_in_a_row_ = skips == state.end() ? 0 : skips->second.get<int64_t>();
  std::vector<data::SkippedRange> ranges;
  if (const auto samples = state.find(samples_state); samples != state.end()) {
    for (const nlohmann::json& range : samples->second)
      ranges.push_back({range.at(0).get<uint64_t>(), range.at(1).get<uint64_t>()});
  }
  context_.corpus.skip(data::SkippedSamples(std::move(ranges)));
  batches_.forget();
}

}  // namespace penstock
