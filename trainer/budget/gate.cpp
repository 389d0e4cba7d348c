#include "trainer/budget/gate.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"

namespace penstock::budget {

using nlohmann::json;

bool GateResult::passed() const {
  return std::all_of(rows.begin(), rows.end(), [](const GateRow& row) { return row.passed; });
}

GateResult gate(const std::vector<StepObservation>& steps, const BubbleBudgetSection& section,
                const std::string& place) {
  const std::vector<Limit> limits = limits_of(section);
  if (limits.empty())
    throw data::DataError(fmt::format("{}: no limit to judge it by: [bubble_budget] sets none", place));
  WindowBuilder builder(section.window_steps);
  std::vector<Window> windows;
  for (size_t i = static_cast<size_t>(section.warmup_steps); i < steps.size(); ++i) {
    if (std::optional<Window> window = builder.add(steps[i])) windows.push_back(std::move(*window));
  }
  if (windows.empty()) {
    throw data::DataError(
        fmt::format("{}: {} steps; {} of warm-up and {} of a window are needed (bubble_budget.warmup_steps, "
                    "window_steps)",
                    place, steps.size(), section.warmup_steps, section.window_steps));
  }
  GateResult result;
  result.first_step = windows.front().first_step;
  result.last_step = windows.back().last_step;
  result.windows = static_cast<int64_t>(windows.size());
  for (const Limit& limit : limits) {
    GateRow row;
    row.limit = limit;
    int64_t in_row = 0;
    for (const Window& window : windows) {
      const std::optional<double> found = figure_of(window, limit.figure);
      if (!found) continue;
      ++row.windows;
      row.mean += *found;
      if (row.windows == 1 || *found > row.worst) {
        row.worst = *found;
        row.worst_step = window.first_step;
        row.worst_why = window.why;
      }
      const bool broken = *found > limit.value;
      row.broken += broken ? 1 : 0;
      in_row = broken ? in_row + 1 : 0;
      row.most_in_row = std::max(row.most_in_row, in_row);
    }
    if (row.windows > 0) row.mean /= static_cast<double>(row.windows);
    row.passed = row.windows == 0 || row.most_in_row < std::min(section.patience, row.windows);
    result.rows.push_back(std::move(row));
  }
  return result;
}

std::string text_of(const GateResult& result) {
  std::string text = fmt::format("steps {} to {}, {} windows\n{:<17}{:>12}{:>12}{:>12}{:>10}{:>9}{:>8}  {}\n",
                                 result.first_step, result.last_step, result.windows, "limit", "at most",
                                 "mean", "worst", "at step", "broken", "in row", "verdict");
  for (const GateRow& row : result.rows) {
    const Figure figure = row.limit.figure;
    const bool any = row.windows > 0;
    text += fmt::format("{:<17}{:>12}{:>12}{:>12}{:>10}{:>9}{:>8}  {}\n", name_of(figure),
                        text_of(figure, row.limit.value), any ? text_of(figure, row.mean) : "-",
                        any ? text_of(figure, row.worst) : "-", any ? fmt::format("{}", row.worst_step) : "-",
                        fmt::format("{}/{}", row.broken, row.windows), row.most_in_row,
                        !any         ? "not seen"
                        : row.passed ? "kept"
                                     : "BROKEN");
  }
  for (const GateRow& row : result.rows) {
    if (!row.passed)
      text += fmt::format("{} at its worst:\n", name_of(row.limit.figure)) + text_of(row.worst_why);
  }
  return text;
}

json json_of(const GateResult& result) {
  json rows = json::array();
  for (const GateRow& row : result.rows) {
    const Figure figure = row.limit.figure;
    rows.push_back({{"limit", name_of(figure)},
                    {"limit_value", in_key_unit(figure, row.limit.value)},
                    {"windows", row.windows},
                    {"broken", row.broken},
                    {"most_in_row", row.most_in_row},
                    {"passed", row.passed}});
    if (row.windows == 0) continue;
    rows.back()["mean"] = in_key_unit(figure, row.mean);
    rows.back()["worst"] = in_key_unit(figure, row.worst);
    rows.back()["worst_step"] = row.worst_step;
    if (!row.passed) rows.back()["why"] = json_of(row.worst_why);
  }
  return {{"schema", 1},
          {"passed", result.passed()},
          {"first_step", result.first_step},
          {"last_step", result.last_step},
          {"windows", result.windows},
          {"limits", rows}};
}

}  // namespace penstock::budget
