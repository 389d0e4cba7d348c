#include "trainer/run_view/budget_view.h"

#include <utility>

namespace penstock::run_view {
namespace {

using nlohmann::json;

std::string words(const json& details, const char* key) {
  const auto found = details.find(key);
  return found != details.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> number(const json& details, const char* key) {
  const auto found = details.find(key);
  if (found == details.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

const json* taken_candidate(const json& details) {
  const auto candidates = details.find("candidates");
  if (candidates == details.end() || !candidates->is_array()) return nullptr;
  for (const json& candidate : *candidates) {
    const auto taken = candidate.find("taken");
    if (taken != candidate.end() && taken->is_boolean() && taken->get<bool>()) return &candidate;
  }
  return nullptr;
}

}  // namespace

BudgetView::BudgetView(BubbleBudgetSection section, bool told)
    : section_(std::move(section)),
      told_(told),
      windows_(section_.window_steps),
      watch_(budget::limits_of(section_), section_.patience) {}

void BudgetView::raise(const std::string& limit, int64_t since_step) {
  clear(limit);
  alarms_.push_back({limit, since_step});
}

void BudgetView::clear(const std::string& limit) {
  std::erase_if(alarms_, [&](const Standing& alarm) { return alarm.limit == limit; });
}

void BudgetView::restart_steps() {
  steps_.clear();
  windows_ = budget::WindowBuilder(section_.window_steps);
  watch_ = budget::AlarmWatch(budget::limits_of(section_), section_.patience);
  if (!told_) alarms_.clear();
}

void BudgetView::restart_events() {
  if (told_) alarms_.clear();
  trial_.reset();
}

void BudgetView::add(const RunStep& step) {
  if (!step.observation) return;
  while (!steps_.empty() && steps_.back().step >= step.step) steps_.pop_back();
  steps_.push_back(*step.observation);
  while (steps_.size() > static_cast<size_t>(section_.window_steps)) steps_.pop_front();
  if (told_ || step.step <= section_.warmup_steps) return;
  const std::optional<budget::Window> window = windows_.add(*step.observation);
  if (!window) return;
  const budget::AlarmWatch::News news = watch_.add(*window);
  for (const budget::Alarm& alarm : news.raised) raise(name_of(alarm.limit.figure), alarm.since_step);
  for (const budget::Limit& limit : news.cleared) clear(name_of(limit.figure));
}

void BudgetView::add(const RunEvent& event) {
  if (event.attempt != attempt_) restart_events();  // a controller begins anew with every start of the run
  attempt_ = event.attempt;
  if (event.name == "budget_alarm" && told_) {
    const std::optional<double> since = number(event.details, "since_step");
    raise(words(event.details, "limit"), since ? static_cast<int64_t>(*since) : event.step);
  } else if (event.name == "budget_alarm_over" && told_) {
    clear(words(event.details, "limit"));
  } else if (event.name == "budget_kept" || event.name == "budget_rolled_back" ||
             event.name == "budget_by_hand" || event.name == "end") {
    trial_.reset();
  } else if (event.name == "budget_decision") {
    if (const json* taken = taken_candidate(event.details)) {
      trial_ = TrialView{words(*taken, "action"), words(*taken, "arrangement"), event.step,
                         number(*taken, "predicted_gain"), number(*taken, "required_gain")};
    }
  }
}

std::optional<budget::Window> BudgetView::window() const {
  if (steps_.size() < static_cast<size_t>(section_.window_steps)) return std::nullopt;
  budget::WindowBuilder builder(section_.window_steps);
  std::optional<budget::Window> made;
  for (const budget::StepObservation& step : steps_) made = builder.add(step);
  return made;
}

std::vector<LimitView> BudgetView::limits() const {
  const std::optional<budget::Window> last = window();
  std::vector<LimitView> made;
  for (const budget::Limit& limit : budget::limits_of(section_)) {
    LimitView view;
    view.limit = limit;
    if (last) view.value = figure_of(*last, limit.figure);
    view.broken = view.value && *view.value > limit.value;
    for (const Standing& alarm : alarms_) {
      if (alarm.limit == name_of(limit.figure)) view.alarm_since = alarm.since_step;
    }
    made.push_back(view);
  }
  return made;
}

}  // namespace penstock::run_view
