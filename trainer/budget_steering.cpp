#include "trainer/budget_steering.h"

#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "trainer/alarm_command.h"

namespace penstock {

using budget::Arrangement;
using budget::BudgetEvent;

namespace {

budget::SimulatedArrangement simulated(const Arrangement& arrangement,
                                       const budget::ControllerOptions& options) {
  const planner::Workload& workload = options.workloads[arrangement.workload];
  return {arrangement, options.machine, workload.micro_batches, workload.model.tied_embeddings};
}

std::vector<report::LimitGauge> gauges_of(const std::vector<budget::AlarmWatch::Reading>& readings) {
  std::vector<report::LimitGauge> gauges;
  for (const budget::AlarmWatch::Reading& reading : readings) {
    const auto in_unit = [&](double value) { return budget::in_key_unit(reading.limit.figure, value); };
    report::LimitGauge& gauge = gauges.emplace_back();
    gauge.name = budget::name_of(reading.limit.figure);
    gauge.limit = in_unit(reading.limit.value);
    if (reading.found) gauge.found = in_unit(*reading.found);
    gauge.alarming = reading.alarming;
  }
  return gauges;
}

constexpr const char* stays =
    "a schedule with two copies or versions of the weights is not arranged otherwise";

std::string without_line_end(const std::string& text) {
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

}  // namespace

/// What rank 0 does for all.
struct BudgetSteering::Leader {
  explicit Leader(Setup setup)
      : options(setup.options),
        running(simulated(setup.running, options)),
        acts(std::move(setup.acts)),
        controller(std::move(setup.options), setup.saved) {
    if (options.budget.on_alarm.empty()) return;
    command.emplace(options.budget.on_alarm, AlarmCommand::usual_limit,
                    [this](const std::string& what) { complain(what); });
  }

  // A command ends whenever it does; the run's reports are for the thread that trains.
  void complain(const std::string& what) {
    const std::lock_guard lock(mutex);
    complaints.push_back(what);
  }

  budget::ControllerOptions options;
  budget::SimulatedArrangement running;
  std::map<int64_t, std::string> acts;
  std::mutex mutex;
  std::vector<std::string> complaints;
  std::optional<AlarmCommand> command;
  budget::BackgroundController controller;
};

BudgetSteering::BudgetSteering(const RankContext& context, Rearrangement& rearrangement, Setup setup)
    : context_(context), rearrangement_(rearrangement) {
  if (!context_.leads()) return;
  const runtime::PipelinePlan& plan = context_.engine->plan();
  if (plan.training.schedule.copies == 1 && !plan.overlaps()) {
    leader_ = std::make_unique<Leader>(std::move(setup));
  } else if (!budget::limits_of(setup.options.budget).empty()) {
    context_.reports.warning(fmt::format("bubble_budget: nobody watches it: {}", stays));
  }
}

BudgetSteering::~BudgetSteering() = default;

void BudgetSteering::observe(int64_t step, std::span<const accounting::StepAccount> replicas,
                             const accounting::StepFigures& figures) {
  if (leader_) leader_->controller.observe(budget::observe(step, replicas, figures, leader_->running));
}

void BudgetSteering::by_hand(const std::string& request, int64_t step) {
  if (leader_) return leader_->controller.by_hand(request, step);
  context_.reports.warning(fmt::format("budget: \"{}\" cannot be done: {}", request, stays));
  context_.reports.event("budget_refused", step, {{"request", request}, {"why", stays}});
}

nlohmann::json BudgetSteering::saved() const {
  return leader_ ? leader_->controller.saved() : nlohmann::json();
}

void BudgetSteering::alarm(const BudgetEvent& event, Decision& wishes) {
  wishes.trace |= context_.job.trace.on_alarm;
  if (!leader_->command) return;
  const nlohmann::json& details = event.details;
  const std::string text = without_line_end(event.text);
  leader_->command->run({{"PENSTOCK_RUN", context_.job.run.name},
                         {"PENSTOCK_STEP", fmt::format("{}", event.step)},
                         {"PENSTOCK_LIMIT", details.value("limit", "")},
                         {"PENSTOCK_LIMIT_VALUE", details.at("limit_value").dump()},
                         {"PENSTOCK_FOUND", details.at("found").dump()},
                         {"PENSTOCK_ALARM", text},
                         {"PENSTOCK_ALARM_JSON", details.dump()}});
}

void BudgetSteering::report_complaints() {
  std::vector<std::string> complaints;
  {
    const std::lock_guard lock(leader_->mutex);
    complaints.swap(leader_->complaints);
  }
  for (const std::string& complaint : complaints) context_.reports.warning(complaint);
}

void BudgetSteering::say(const std::vector<BudgetEvent>& events) {
  for (const BudgetEvent& event : events) {
    if (!event.text.empty()) context_.reports.note(without_line_end(event.text));
    context_.reports.event(event.name, event.step, event.details);
  }
}

void BudgetSteering::wish(const StepSummary& result, Decision& wishes) {
  if (!leader_) return;
  if (const auto asked = leader_->acts.find(result.step); asked != leader_->acts.end()) {
    by_hand(asked->second, result.step);
    leader_->controller.wait();
  }
  const std::optional<Arrangement> arrangement = take_news(result.step, wishes);
  if (arrangement) wishes.arrangement = json_of(*arrangement).dump();
}

std::optional<Arrangement> BudgetSteering::take_news(int64_t step, Decision& wishes) {
  budget::BackgroundController::News news = leader_->controller.news();
  say(news.events);
  for (const BudgetEvent& event : news.events) {
    if (event.name == "budget_alarm") alarm(event, wishes);
  }
  if (!news.readings.empty()) context_.reports.limits(gauges_of(news.readings), step);
  report_complaints();
  return std::move(news.arrangement);
}

void BudgetSteering::act(const StepSummary& result, const Decision& decision) {
  if (decision.stop || decision.finished) {
    // What the last steps came to is said, if it takes no plan.
    constexpr auto patience = std::chrono::milliseconds(200);
    if (leader_) leader_->controller.wait(patience);
    Decision too_late;
    if (leader_) take_news(result.step, too_late);
    return;
  }
  if (decision.arrangement.empty()) return;
  const Arrangement arrangement = budget::arrangement_from(nlohmann::json::parse(decision.arrangement));
  const watchdog::Progress::Doing at(context_.progress, watchdog::Phase::rearrangement);
  const Rearrangement::Outcome outcome = rearrangement_.carry_out(arrangement);
  if (outcome.refusal.empty()) {
    follow_engine(context_);
    context_.progress.rearranged();
    for (Participant* follower : followers_) follower->rearranged();
  }
  if (leader_) conclude(outcome, arrangement, result.step);
}

void BudgetSteering::conclude(const Rearrangement::Outcome& outcome, const Arrangement& arrangement,
                              int64_t step) {
  if (!outcome.refusal.empty()) {
    say(leader_->controller.refused(step, outcome.refusal));
    return;
  }
  const std::string before = to_string(leader_->running.arrangement());
  leader_->running = simulated(arrangement, leader_->options);
  leader_->controller.carried_out(rearrangement_.room());
  context_.reports.note(fmt::format("step {}: now {} ({:.1f} MiB moved, {:.2f} s)", step,
                                    to_string(arrangement),
                                    static_cast<double>(outcome.moved_bytes) / (1 << 20), outcome.seconds));
  nlohmann::json details = json_of(arrangement);
  details["before"] = before;
  details["moved_bytes"] = outcome.moved_bytes;
  details["seconds"] = outcome.seconds;
  context_.reports.event("rearranged", step, details);
  context_.reports.rearranged();
}

}  // namespace penstock
