// What happened last.
#include <algorithm>

#include <fmt/format.h>

#include "trainer/report/timestamp.h"
#include "trainer/watch/panel.h"

namespace penstock::watch {
namespace {

Ink ink_of(const std::string& event) {
  if (event == "budget_alarm" || event == "nonfinite" || event == "save_failed" || event == "watchdog" ||
      event == "budget_failed")
    return Ink::alarm;
  if (event == "spike" || event == "budget_rolled_back") return Ink::warning;
  if (event == "budget_kept" || event == "budget_alarm_over") return Ink::good;
  if (event == "budget_decision") return Ink::accent;
  return Ink::plain;
}

}  // namespace

std::vector<Line> event_lines(const run_view::RunState& run, const View& view, int rows) {
  std::vector<Line> lines;
  const auto& events = run.events();
  const size_t count = std::min(events.size(), static_cast<size_t>(std::max(0, rows)));
  for (size_t i = events.size() - count; i < events.size(); ++i) {
    Line line;
    if (events[i].time && view.columns >= 60)
      line.add(report::timestamp(*events[i].time).substr(11, 8) + " ", Ink::dim);
    line.add(fmt::format("step {:<7} ", events[i].step), Ink::dim);
    line.add(cut(shown(text_of(events[i]), view.abilities), view.columns - line.columns(), view.abilities),
             ink_of(events[i].name));
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace penstock::watch
