// Advice in words and as JSON.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trainer/advice/advice.h"

namespace penstock::advice {
namespace {

using nlohmann::json;

const char* name_of(Level level) {
  switch (level) {
    case Level::leave_alone:
      return "leave_alone";
    case Level::may_help:
      return "may_help";
    case Level::change_first:
      return "change_first";
  }
  return "?";
}

std::string verdict(const Advice& advice) {
  const double percent = 100 * advice.measured.idle;
  switch (advice.level) {
    case Level::leave_alone:
      return fmt::format("{:.1f} % idle: below 10 %, leave it alone", percent);
    case Level::may_help:
      return fmt::format("{:.1f} % idle: between 10 and 15 %, not urgent; what may help:", percent);
    case Level::change_first:
      return fmt::format("{:.1f} % idle: above 15 %; what to change, first things first:", percent);
  }
  return "";
}

std::string line_of(const Change& change, double step_now) {
  std::string text = fmt::format("{}: ", change.keys);
  if (change.changes_training) {
    text += fmt::format("{:.1f} % less time a token, bubble {:.1f} % (predicted); it changes training",
                        100 * change.gain, 100 * change.bubble);
  } else {
    text += fmt::format("step {:.4g} ms instead of {:.4g}, {:.1f} % less, bubble {:.1f} % (predicted)",
                        1e3 * change.step, 1e3 * step_now, 100 * change.gain, 100 * change.bubble);
  }
  const auto more = static_cast<double>(change.peak_memory - change.peak_memory_now);
  if (more > 0.05 * static_cast<double>(change.peak_memory_now))
    text += fmt::format("; the fullest rank takes {:.4g} MiB more", more / (1 << 20));
  return text;
}

}  // namespace

std::vector<std::string> text_of(const Advice& advice) {
  std::vector<std::string> lines{verdict(advice)};
  if (advice.level == Level::leave_alone) return lines;
  int number = 0;
  for (const Change& change : advice.changes)
    lines.push_back(fmt::format("{}. {}", ++number, line_of(change, advice.measured.step)));
  for (const Hint& hint : advice.hints) lines.push_back(fmt::format("{}. {}", ++number, hint.text));
  if (!advice.unknown.empty()) {
    lines.push_back("nothing could be predicted: " + advice.unknown);
  } else if (advice.changes.empty() && advice.simulated_step) {
    lines.emplace_back("the planner knows no partition, schedule or number of chunks that gains 1 %");
  }
  return lines;
}

json json_of(const Advice& advice) {
  json changes = json::array();
  for (const Change& change : advice.changes) {
    changes.push_back({{"keys", change.keys},
                       {"predicted_step_ms", 1e3 * change.step},
                       {"predicted_bubble_ratio", change.bubble},
                       {"predicted_gain", change.gain},
                       {"peak_memory_bytes", change.peak_memory},
                       {"peak_memory_bytes_now", change.peak_memory_now},
                       {"changes_training", change.changes_training}});
  }
  json hints = json::array();
  for (const Hint& hint : advice.hints) {
    hints.push_back({{"text", hint.text}});
    if (hint.gain) hints.back()["gain"] = *hint.gain;
  }
  json made{{"level", name_of(advice.level)},
            {"idle_ratio", advice.measured.idle},
            {"step_ms", 1e3 * advice.measured.step},
            {"changes", changes},
            {"hints", hints},
            {"text", text_of(advice)}};
  if (advice.simulated_step) made["simulated_step_ms"] = 1e3 * *advice.simulated_step;
  if (!advice.unknown.empty()) made["unknown"] = advice.unknown;
  return made;
}

}  // namespace penstock::advice
