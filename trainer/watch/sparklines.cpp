// Loss, step time and bubble over the steps.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "trainer/watch/panel.h"

namespace penstock::watch {
namespace {

constexpr std::array<const char*, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<const char*, 8> kMarks{"_", ".", ",", "-", "=", "+", "*", "#"};

// Means of equally many values a column; NaN where there are none.
std::vector<double> columns_from(const std::vector<double>& values, int columns) {
  if (values.size() <= static_cast<size_t>(columns)) return values;
  std::vector<double> made(static_cast<size_t>(columns));
  for (size_t c = 0; c < made.size(); ++c) {
    const size_t begin = c * values.size() / made.size();
    const size_t end = (c + 1) * values.size() / made.size();
    double sum = 0;
    int count = 0;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(values[i])) continue;
      sum += values[i];
      ++count;
    }
    made[c] = count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
  }
  return made;
}

struct Series {
  const char* name;
  std::vector<double> values;
  bool capped;  ///< rare long ones are drawn no higher than the 98th percentile
  std::string (*text)(double value);
};

// One slow step in a thousand would press all others flat.
std::vector<double> capped(std::vector<double> values) {
  std::vector<double> sorted;
  std::copy_if(values.begin(), values.end(), std::back_inserter(sorted),
               [](double v) { return std::isfinite(v); });
  if (sorted.empty()) return values;
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() * 98 / 100);
  const auto place = std::min(at, sorted.end() - 1);
  std::nth_element(sorted.begin(), place, sorted.end());
  for (double& value : values) value = std::isfinite(value) ? std::min(value, *place) : value;
  return values;
}

std::string loss_text(double value) {
  return fmt::format("{:.4f}", value);
}
std::string time_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.4g} ms", 1e3 * seconds) : fmt::format("{:.4g} s", seconds);
}
std::string share_text(double value) {
  return fmt::format("{:.1f} %", 100 * value);
}

Line line_of(const Series& series, const View& view) {
  Line line;
  line.add(fmt::format("{:<7}", series.name), Ink::dim);
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double value : series.values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) return line.add("-", Ink::dim);
  const double last = series.values.back();
  const std::string now = std::isfinite(last) ? series.text(last) : "not finite";
  const std::string range = fmt::format("  {} to {}", series.text(low), series.text(high));
  constexpr int value_columns = 11;
  constexpr int range_columns = 26;
  const bool wide = view.columns >= 72;
  const int columns = std::max(8, view.columns - line.columns() - value_columns - (wide ? range_columns : 0));
  const std::string spark =
      sparkline(series.capped ? capped(series.values) : series.values, columns, view.abilities);
  line.pad_to(7 + columns - columns_of(spark));
  line.add(spark, Ink::accent);
  line.add(fmt::format(" {:>{}}", now, value_columns - 1), std::isfinite(last) ? Ink::strong : Ink::alarm);
  if (wide) line.add(range, Ink::dim);
  return line;
}

}  // namespace

std::string sparkline(const std::vector<double>& values, int columns, const Abilities& abilities) {
  const std::vector<double> shown = columns_from(values, std::max(1, columns));
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double value : shown) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const auto& ramp = abilities.utf8 ? kBlocks : kMarks;
  std::string text;
  for (const double value : shown) {
    if (!std::isfinite(value)) {
      text += ' ';
      continue;
    }
    const double share = high > low ? (value - low) / (high - low) : 0.5;
    text += ramp[std::min(ramp.size() - 1, static_cast<size_t>(share * static_cast<double>(ramp.size())))];
  }
  return text;
}

std::vector<Line> sparklines(const run_view::RunState& run, const View& view, int count) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  std::array<Series, 3> all{Series{"loss", {}, false, loss_text}, Series{"step", {}, true, time_text},
                            Series{"bubble", {}, false, share_text}};
  for (const run_view::PastStep& step : run.past()) {
    all[0].values.push_back(step.loss.value_or(unknown));
    all[1].values.push_back(step.seconds > 0 ? step.seconds : unknown);
    all[2].values.push_back(step.bubble_ratio.value_or(unknown));
  }
  std::vector<Line> lines;
  for (int i = 0; i < count && i < 3; ++i) lines.push_back(line_of(all[static_cast<size_t>(i)], view));
  return lines;
}

}  // namespace penstock::watch
