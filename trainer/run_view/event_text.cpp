// What events of events.jsonl say, in words.
#include <cmath>

#include <fmt/format.h>

#include "trainer/report/progress_bar.h"
#include "trainer/run_view/run_record.h"

namespace penstock::run_view {
namespace {

using nlohmann::json;

double number(const json& details, const char* key) {
  const auto found = details.find(key);
  return found != details.end() && found->is_number() ? found->get<double>() : std::nan("");
}

std::string words(const json& details, const char* key) {
  const auto found = details.find(key);
  return found != details.end() && found->is_string() ? found->get<std::string>() : "";
}

bool yes(const json& details, const char* key) {
  const auto found = details.find(key);
  return found != details.end() && found->is_boolean() && found->get<bool>();
}

// In the unit of the limit's key: "18.3 %", "12.3 ms", "1.80 x".
std::string limit_figure(const std::string& limit, double value) {
  if (limit.ends_with("_ms")) return fmt::format("{:.4g} ms", value);
  if (limit == "amplification") return fmt::format("{:.2f} x", value);
  return fmt::format("{:.1f} %", 100 * value);
}

std::string decision_text(const json& details) {
  const auto candidates = details.find("candidates");
  if (candidates == details.end() || !candidates->is_array() || candidates->empty())
    return "weighed: no allowed action has anything to offer";
  for (const json& candidate : *candidates) {
    if (!yes(candidate, "taken")) continue;
    return fmt::format("{} is tried: {}; predicted gain {:.1f} %", words(candidate, "action"),
                       words(candidate, "arrangement"), 100 * number(candidate, "predicted_gain"));
  }
  const json& best = candidates->front();
  return fmt::format("weighed: nothing is sure enough; best is {}, {:.1f} %", words(best, "action"),
                     100 * number(best, "predicted_gain"));
}

}  // namespace

std::string text_of(const RunEvent& event) {
  const json& details = event.details;
  if (event.name == "start") return yes(details, "resumed") ? "resumed" : "started";
  if (event.name == "evaluation")
    return fmt::format("validation loss {:.4f} in {:.2f} s", number(details, "loss"),
                       number(details, "seconds"));
  if (event.name == "save") {
    const double bytes = number(details, "bytes");
    return fmt::format("saved{} in {:.2f} s",
                       bytes >= 0 ? ", " + report::format_amount(static_cast<uint64_t>(bytes),
                                                                 report::ProgressUnit::bytes, "B")
                                  : "",
                       number(details, "seconds"));
  }
  if (event.name == "watchdog") return "watchdog: " + words(details, "reason");
  if (event.name == "save_waited") {
    return fmt::format("saving waited {:.2f} s for the checkpoint of step {}", number(details, "seconds"),
                       static_cast<int64_t>(number(details, "for_step")));
  }
  if (event.name == "loaded") {
    return fmt::format("checkpoint checked in {:.2f} s, loaded in {:.2f} s", number(details, "check_seconds"),
                       number(details, "load_seconds"));
  }
  if (event.name == "save_failed") return "save failed: " + words(details, "reason");
  if (event.name == "prune") return words(details, "what");
  if (event.name == "nonfinite") {
    const std::string unit = words(details, "unit");
    return "loss or gradient is not finite" + (unit.empty() ? "" : fmt::format(", first in unit {}", unit));
  }
  if (event.name == "spike") return fmt::format("loss spike: {:.4f}", number(details, "loss"));
  if (event.name == "rollback") return fmt::format("taken back to step {:.0f}", number(details, "to"));
  if (event.name == "trace") return "trace written: " + words(details, "file");
  if (event.name == "costs")
    return fmt::format("predictions now use the run's own costs ({:+.1f} %)",
                       100 * number(details, "difference"));
  if (event.name == "prediction") {
    return fmt::format("step {:.4g} ms measured, {:.4g} predicted; bubble {:.1f} % ({:.1f} %)",
                       number(details, "step_ms"), number(details, "predicted_step_ms"),
                       100 * number(details, "bubble_ratio"),
                       100 * number(details, "predicted_bubble_ratio"));
  }
  if (event.name == "end") {
    const std::string reason = words(details, "reason");
    return fmt::format("ended with exit code {:.0f}{}{}", number(details, "exit_code"),
                       reason.empty() ? "" : ": ", reason);
  }
  if (event.name == "budget_alarm") {
    const std::string limit = words(details, "limit");
    return fmt::format("ALARM {} is {}, limit {}, since step {:.0f}", limit,
                       limit_figure(limit, number(details, "found")),
                       limit_figure(limit, number(details, "limit_value")), number(details, "since_step"));
  }
  if (event.name == "budget_alarm_over") {
    const std::string limit = words(details, "limit");
    return fmt::format("{} is within its limit of {} again", limit,
                       limit_figure(limit, number(details, "limit_value")));
  }
  if (event.name == "budget_decision") return decision_text(details);
  if (event.name == "budget_kept" || event.name == "budget_rolled_back") {
    const double gain = number(details, "measured_gain");
    return fmt::format("{} is {}: {}{}", words(details, "action"),
                       event.name == "budget_kept" ? "kept" : "rolled back", words(details, "why"),
                       std::isnan(gain) ? "" : fmt::format(" ({:.1f} % found)", 100 * gain));
  }
  if (event.name == "rearranged") {
    return fmt::format("now {}, {:.4g} MiB moved in {:.2f} s", words(details, "schedule"),
                       number(details, "moved_bytes") / (1 << 20), number(details, "seconds"));
  }
  if (event.name == "budget_by_hand")
    return fmt::format("by hand, \"{}\": {}", words(details, "request"), words(details, "arrangement"));
  if (event.name == "budget_refused" || event.name == "budget_failed")
    return (event.name == "budget_refused" ? "refused: " : "the budget is watched no longer: ") +
           words(details, "why");
  if (event.name == "advice") {
    const auto lines = details.find("text");
    if (lines != details.end() && lines->is_array() && !lines->empty() && lines->front().is_string())
      return lines->front().get<std::string>();
  }
  const std::string reason = words(details, "reason");
  return event.name + (reason.empty() ? "" : ": " + reason);
}

}  // namespace penstock::run_view
