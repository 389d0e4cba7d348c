// The bubble budget: limits, alarms, the trial that is under way.
#include <algorithm>

#include <fmt/format.h>

#include "trainer/watch/panel.h"

namespace penstock::watch {
namespace {

constexpr int kNameColumns = 17;
constexpr int kGauge = 20;

// The value against its limit, which stands at two thirds.
std::string gauge(double ratio, const Abilities& abilities) {
  constexpr int limit = kGauge * 2 / 3;
  const int full = std::clamp(static_cast<int>(ratio * limit + 0.5), 0, kGauge);
  std::string text;
  for (int i = 0; i < kGauge; ++i) {
    if (i == limit) text += abilities.utf8 ? "│" : "|";
    text += i < full ? (abilities.utf8 ? "■" : "#") : (abilities.utf8 ? "·" : ".");
  }
  return text;
}

Line limit_line(const run_view::LimitView& view_of_limit, int64_t window_steps, const View& view) {
  const budget::Figure figure = view_of_limit.limit.figure;
  const double limit = view_of_limit.limit.value;
  const bool alarm = view_of_limit.alarm_since.has_value();
  const Ink ink = alarm ? Ink::alarm : view_of_limit.broken ? Ink::warning : Ink::good;
  Line line;
  line.add(fmt::format("{:<{}}", name_of(figure), kNameColumns), Ink::dim);
  if (!view_of_limit.value) {
    line.add(fmt::format("limit {}", text_of(figure, limit)));
    line.add(figure == budget::Figure::amplification ? "  (no pause in the window)"
                                                     : fmt::format("  (a window is {} steps)", window_steps),
             Ink::dim);
    return line;
  }
  if (view.columns >= 76) line.add(gauge(*view_of_limit.value / limit, view.abilities), ink).add("  ");
  line.add(fmt::format("{:>9}", text_of(figure, *view_of_limit.value)), ink);
  line.add(fmt::format(" of {}", text_of(figure, limit)));
  if (alarm) {
    line.add(fmt::format("  ALARM since step {}", *view_of_limit.alarm_since), Ink::alarm);
  } else if (view_of_limit.broken) {
    line.add("  over", Ink::warning);
  }
  return line;
}

}  // namespace

std::vector<Line> budget_lines(const run_view::BudgetView& budget, const View& view) {
  std::vector<Line> lines;
  for (const run_view::LimitView& limit : budget.limits())
    lines.push_back(limit_line(limit, budget.section().window_steps, view));
  if (const std::optional<run_view::TrialView>& trial = budget.trial()) {
    Line& line = lines.emplace_back();
    line.add(fmt::format("{:<{}}", "on trial", kNameColumns), Ink::dim);
    line.add(shown(trial->action, view.abilities), Ink::accent);
    line.add(fmt::format(" since step {}", trial->since_step));
    if (trial->predicted) line.add(fmt::format(", {:.1f} % predicted", 100 * *trial->predicted));
    if (trial->required) line.add(fmt::format(", more than {:.1f} % required", 100 * *trial->required));
    line.add(": " + shown(trial->arrangement, view.abilities), Ink::dim);
  }
  return lines;
}

}  // namespace penstock::watch
