#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/schedule.h"
#include "trainer/budget/actions/action.h"

namespace penstock::budget {

namespace {

using planner::CutBy;

int whole_number(const std::string& key, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    throw schedule::ScheduleError(fmt::format(
        "bubble_budget.conservative: {} = \"{}\": a whole number from 0 was expected", key, text));
  }
  return value;
}

CutBy cut_of(const std::string& text) {
  for (const CutBy cut : {CutBy::measured, CutBy::parameters, CutBy::flops, CutBy::layers}) {
    if (text == planner::to_string(cut)) return cut;
  }
  throw schedule::ScheduleError(fmt::format(
      "bubble_budget.conservative: partition = \"{}\": \"measured\", \"parameters\", \"flops\" or "
      "\"layers\" was expected",
      text));
}

/// What the job names to fall back to; without keys what the run began with.
class Conservative : public Action {
 public:
  explicit Conservative(const std::map<std::string, std::string>& keys) : any_(!keys.empty()) {
    for (const auto& [key, value] : keys) {
      if (key == "schedule") {
        if (schedule::copies_of(value) > 1) {
          throw schedule::ScheduleError(fmt::format(
              "bubble_budget.conservative: schedule = \"{}\": it runs two copies of the weights, which round "
              "differently; actions take schedules with one",
              value));
        }
        if (schedule::versions_of(value) > 1) {
          throw schedule::ScheduleError(
              fmt::format("bubble_budget.conservative: schedule = \"{}\": it is asynchronous, and computes "
                          "something else; "
                          "actions take synchronous schedules",
                          value));
        }
        schedule_ = value;
      } else if (key == "chunks") {
        chunks_ = whole_number(key, value);
      } else if (key == "warmup_slack") {
        slack_ = whole_number(key, value);
      } else if (key == "partition") {
        cut_ = cut_of(value);
      } else {
        throw schedule::ScheduleError(fmt::format(
            "bubble_budget.conservative: \"{}\": only schedule, chunks, warmup_slack and partition of "
            "[parallel] can change while the job runs",
            key));
      }
    }
  }

  BudgetAction kind() const override { return BudgetAction::conservative; }

  std::optional<planner::PlanRequest> request(const Situation& situation) const override {
    const Arrangement& first = situation.first;
    planner::PlanRequest request = as_it_is(situation);
    request.schedule = schedule_.value_or(first.schedule);
    request.chunks = chunks_.value_or(schedule_ ? 0 : first.chunks);
    request.slack = slack_.value_or(first.slack);
    request.listed = first.layout.units;
    request.recompute.fixed = first.layout.recompute;
    if (!any_) return request;
    // Other stages than the first ones are cut and rebuilt as they need.
    request.cut = cut_.value_or(CutBy::measured);
    request.listed.clear();
    request.recompute.fixed.clear();
    request.recompute.allowed = situation.recompute;
    return request;
  }

 private:
  bool any_;
  std::optional<std::string> schedule_;
  std::optional<int> chunks_;
  std::optional<int> slack_;
  std::optional<CutBy> cut_;
};

}  // namespace

std::unique_ptr<Action> make_conservative(const std::map<std::string, std::string>& keys) {
  return std::make_unique<Conservative>(keys);
}

}  // namespace penstock::budget
