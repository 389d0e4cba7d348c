// The state machine: which window belongs to what, and what follows from it.
#include "trainer/budget/controller.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace penstock::budget {

Controller::Controller(ControllerOptions options)
    : options_(std::move(options)),
      windows_(options_.budget.window_steps),
      alarms_(limits_of(options_.budget), options_.budget.patience) {
  for (const BudgetAction kind : options_.budget.actions)
    actions_.push_back(make_action(kind, options_.budget));
  for (const planner::Workload& workload : options_.workloads) given_.emplace_back(workload.model);
  run(simulated(options_.first));
}

Controller::~Controller() = default;

std::unique_ptr<SimulatedArrangement> Controller::simulated(const Arrangement& arrangement) const {
  const planner::Workload& workload = options_.workloads[arrangement.workload];
  return std::make_unique<SimulatedArrangement>(arrangement, options_.machine, workload.micro_batches,
                                                workload.model.tied_embeddings);
}

void Controller::run(std::unique_ptr<SimulatedArrangement> arrangement) {
  running_ = std::move(arrangement);
  expected_ = running_->work(given_[running_->arrangement().workload]);
  history_.restart();
}

std::string Controller::intention() const {
  if (actions_.empty()) return "nothing: bubble_budget.actions allows nothing";
  if (state_ == State::trial) return "the trial that is under way is finished first";
  std::string names;
  for (const auto& action : actions_) {
    names += names.empty() ? "" : ", ";
    names += name_of(action->kind());
  }
  return fmt::format("weigh {}{}", names,
                     state_ == State::cool_down ? fmt::format(", after {} windows of rest", cooling_) : "");
}

int64_t Controller::missing() const {
  return std::max<int64_t>(0, options_.budget.warmup_steps - warm_up_steps_) +
         static_cast<int64_t>(windows_.missing());
}

void Controller::report_limits(const Window& window, Verdict& verdict) {
  const AlarmWatch::News news = alarms_.add(window);
  verdict.readings = alarms_.readings();
  for (const Alarm& alarm : news.raised) {
    nlohmann::json details = json_of(alarm);
    details["will"] = intention();
    verdict.events.push_back(
        {"budget_alarm", window.last_step, std::move(details), text_of(alarm, intention())});
  }
  for (const Limit& limit : news.cleared) {
    verdict.events.push_back(
        {"budget_alarm_over",
         window.last_step,
         {{"limit", name_of(limit.figure)}, {"limit_value", in_key_unit(limit.figure, limit.value)}},
         fmt::format("{} is within its limit of {} again\n", name_of(limit.figure),
                     text_of(limit.figure, limit.value))});
  }
}

Verdict Controller::observe(const StepObservation& step) {
  Verdict verdict;
  if (state_ == State::warm_up) {
    if (++warm_up_steps_ >= options_.budget.warmup_steps) state_ = State::watching;
    return verdict;
  }
  if (!step.runs.empty()) {
    history_.add(step, *running_, expected_);
    if (state_ == State::trial) judge_step(step);
  }
  const std::optional<Window> window = windows_.add(step);
  if (!window) return verdict;
  history_.end_window();
  report_limits(*window, verdict);
  switch (state_) {
    case State::warm_up:
      break;
    case State::cool_down:
      if (--cooling_ == 0) state_ = State::watching;
      break;
    case State::trial:
      judge_window(step.step, verdict);
      break;
    case State::watching:
      if (!actions_.empty() && alarms_.alarming() && anything_new()) consider(step.step, verdict);
      break;
  }
  return verdict;
}

bool Controller::anything_new() const {
  const size_t windows = history_.windows();
  if (windows < static_cast<size_t>(options_.budget.patience)) return false;
  // Too few independent steps to say anything about.
  if (variance_of_mean(history_.noise().correlation, history_.segment().size()) * Estimate::least_effective >
      1)
    return false;
  if (fruitless_levels_.empty() || fruitless_segment_ != history_.number()) return true;
  // The same costs again, known better: after twice as long.
  if (windows >= 2 * fruitless_windows_) return true;
  return history_.differ(fruitless_levels_, fruitless_steps_);
}

const Controller::Left* Controller::left(const Arrangement& arrangement) const {
  for (const Left& each : left_) {
    if (each.arrangement == arrangement) return &each;
  }
  return nullptr;
}

bool Controller::barred(const Arrangement& arrangement) const {
  // Another rounding must not come and go: a size that was left is not taken again.
  const auto of_its_size = [&](const Left& each) {
    return each.arrangement.workload == arrangement.workload;
  };
  if (arrangement.workload != running().workload && std::any_of(left_.begin(), left_.end(), of_its_size))
    return true;
  const Left* before = left(arrangement);
  return before != nullptr && !before->failed_levels.empty() &&
         !history_.differ(before->failed_levels, before->failed_steps);
}

double Controller::required_gain(const Arrangement& arrangement) const {
  const Left* before = left(arrangement);
  return options_.budget.min_gain * (before == nullptr ? 1 : 1 + before->times);
}

Controller::Left& Controller::leave(const Arrangement& arrangement) {
  for (Left& each : left_) {
    if (each.arrangement == arrangement) {
      ++each.times;
      return each;
    }
  }
  return left_.emplace_back(Left{arrangement, 1, {}, 0});
}

std::vector<BudgetEvent> Controller::refused(int64_t step, const std::string& why) {
  Verdict verdict;
  if (trial_) {
    end_trial(false, {}, "it could not be applied: " + why, step, verdict);
  } else if (before_) {
    verdict.events.push_back({"budget_refused",
                              step,
                              {{"arrangement", to_string(running())}, {"why", why}},
                              fmt::format("budget: {} could not be applied: {}; {} runs on\n",
                                          to_string(running()), why, to_string(*before_))});
    run(simulated(*before_));
  }
  before_.reset();
  return std::move(verdict.events);
}

}  // namespace penstock::budget
