#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace penstock::run_view {

/// status.json.
struct StatusRecord {
  std::string state;  ///< "starting", "running", "finished", "stopped", "failed"
  std::optional<std::chrono::system_clock::time_point> time;
  int64_t pid = 0;
  int64_t attempt = 1;
  int64_t step = 0;
  int64_t steps = 0;
  bool needs_resume = true;
  std::optional<double> loss;  ///< NaN: it was not finite
  std::optional<double> seconds_left;
  std::optional<int64_t> last_checkpoint;
  std::optional<int> exit_code;
  std::string reason;

  bool ended() const { return state == "finished" || state == "stopped" || state == "failed"; }
};
/// Nothing: no status of a run.
std::optional<StatusRecord> parse_status(std::string_view text);

/// A line of events.jsonl.
struct RunEvent {
  int64_t attempt = 1;
  int64_t step = 0;
  std::optional<std::chrono::system_clock::time_point> time;
  std::string name;
  nlohmann::json details;  ///< the whole line
};
std::optional<RunEvent> parse_event(std::string_view line);
/// What an event says in a line for people, without its step: "saved, 26.4 MB in 0.02 s".
std::string text_of(const RunEvent& event);

/// Who has, or last had, a run folder: the text of its lock file.
struct Holder {
  int64_t pid = 0;
  std::string host;
  std::string since;
};
std::optional<Holder> parse_holder(std::string_view text);

}  // namespace penstock::run_view
