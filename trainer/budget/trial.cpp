// A new arrangement is run, and has to show that it is worth it.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "trainer/budget/controller.h"

namespace penstock::budget {

using nlohmann::json;

namespace {

double relative_error(const Estimate& estimate) {
  return estimate.mean > 0 ? estimate.error / estimate.mean : 0;
}

}  // namespace

void Controller::start_trial(const Weighed& best, const std::vector<planner::Workload>& workloads,
                             int64_t step, Verdict& verdict) {
  // Until what made us choose, by chance, has died away.
  constexpr size_t settling = 2;
  constexpr double remaining = 0.05;
  const Arrangement arrangement = arrangement_of(best.candidate);
  Trial trial;
  trial.action = best.action;
  trial.correlation = history_.noise().correlation;
  trial.skip = settling;
  if (trial.correlation > 0) {
    const double steps = std::log(remaining) / std::log(trial.correlation);
    trial.skip = std::max(settling, static_cast<size_t>(std::ceil(steps)));
  }
  trial.levels = history_.levels();
  trial.level_steps = history_.segment().size();
  trial.first_step = step + 1;
  trial.predicted = best.gain.mean;
  trial.required = best.required;
  trial.old_sums = std::make_unique<planner::UnitSums>(workloads[running().workload].model);
  trial.new_sums = std::make_unique<planner::UnitSums>(workloads[arrangement.workload].model);
  std::unique_ptr<SimulatedArrangement> next = simulated(arrangement);
  trial.new_work = totals(next->work(*trial.new_sums));
  const std::vector<double> old_work = totals(running_->work(*trial.old_sums));
  std::vector<double> ratios;
  for (const CostHistory::Step& each : history_.segment()) {
    if (!each.judged) continue;
    const std::vector<double> pace = paces(each.measured, old_work);
    const double old = running_->step(*trial.old_sums, pace);
    ratios.push_back(each.seconds / old);
    trial.before.push_back(next->step(*trial.new_sums, pace) / old);
  }
  trial.old_ratio = estimate_mean(std::move(ratios), 0);
  before_ = running();
  trial.old = std::move(running_);
  run(std::move(next));
  trial_ = std::move(trial);
  state_ = State::trial;
  verdict.command = Verdict::Command::apply;
  verdict.arrangement = arrangement;
}

void Controller::judge_step(const StepObservation& step) {
  Trial& trial = *trial_;
  if (++trial.steps <= trial.skip || step.paused) return;
  const std::vector<double> pace = paces(history_.segment().back().measured, trial.new_work);
  const double old = trial.old_ratio.mean * trial.old->step(*trial.old_sums, pace);
  trial.gains.push_back(1 - step.seconds / old);
  trial.new_ratios.push_back(step.seconds / running_->step(*trial.new_sums, pace));
}

Controller::Findings Controller::findings() const {
  const Trial& trial = *trial_;
  const double correlation = std::max(trial.correlation, history_.noise().correlation);
  Findings found;
  if (trial.gains.size() < 3) return found;
  const Estimate ratio = estimate_mean(trial.new_ratios, 0);
  std::vector<double> gains;
  for (const double simulated : trial.before)
    gains.push_back(1 - simulated * ratio.mean / trial.old_ratio.mean);
  gains.insert(gains.end(), trial.gains.begin(), trial.gains.end());
  found.own = estimate_mean(trial.gains, correlation);
  found.own.error = std::hypot(found.own.error, relative_error(trial.old_ratio));
  found.all = estimate_mean(std::move(gains), correlation);
  found.all.error = std::hypot(found.all.error, relative_error(trial.old_ratio), relative_error(ratio));
  return found;
}

void Controller::judge_window(int64_t step, Verdict& verdict) {
  Trial& trial = *trial_;
  ++trial.windows;
  const Findings found = findings();
  if (found.own.mean > trial.required && found.all.lower(options_.keep_confidence) > trial.required) {
    end_trial(true, found, "its gain is sure", step, verdict);
  } else if (found.own.upper(options_.keep_confidence) < trial.required ||
             found.all.upper(options_.keep_confidence) < trial.required) {
    end_trial(false, found, "it does not gain what it has to", step, verdict);
  } else if (trial.windows >= longest_trial) {
    end_trial(false, found, "its gain stayed unsure", step, verdict);
  }
}

void Controller::end_trial(bool kept, const Findings& found, const std::string& why, int64_t step,
                           Verdict& verdict) {
  Trial trial = std::move(*trial_);
  trial_.reset();
  json details{{"action", name_of(trial.action)},
               {"arrangement", to_string(running())},
               {"before", to_string(trial.old->arrangement())},
               {"first_step", trial.first_step},
               {"predicted_gain", trial.predicted},
               {"required_gain", trial.required},
               {"confidence", options_.keep_confidence},
               {"steps_judged", trial.gains.size()},
               {"measured_to_simulated", trial.old_ratio.mean},
               {"why", why}};
  std::string measured = "nothing measured";
  if (found.all.effective > 0) {
    details["measured_gain"] = found.own.mean;
    details["measured_gain_standard_error"] = found.own.error;
    details["gain"] = found.all.mean;
    details["gain_standard_error"] = found.all.error;
    measured = fmt::format(
        "{:.1f} % in its own steps; in all {:.1f} % +- {:.1f} %, {:.1f} % predicted, "
        "more than {:.1f} % required",
        100 * found.own.mean, 100 * found.all.mean, 100 * found.all.error, 100 * trial.predicted,
        100 * trial.required);
  }
  verdict.events.push_back({kept ? "budget_kept" : "budget_rolled_back", step, std::move(details),
                            fmt::format("budget: {} is {}: {} ({})\n", name_of(trial.action),
                                        kept ? "kept" : "rolled back", why, measured)});
  // Neither what was left for a better one nor what failed comes back for as little.
  Left& left = leave(kept ? trial.old->arrangement() : running());
  if (!kept) {
    left.failed_levels = trial.levels;
    left.failed_steps = trial.level_steps;
  }
  state_ = State::cool_down;
  cooling_ = options_.budget.cooldown_windows;
  fruitless_levels_.clear();
  if (kept) {
    previous_ = trial.old->arrangement();
    return;
  }
  before_ = running();
  verdict.command = Verdict::Command::roll_back;
  verdict.arrangement = trial.old->arrangement();
  run(std::move(trial.old));
}

}  // namespace penstock::budget
