#include "trainer/run_view/run_record.h"

#include <charconv>
#include <limits>

#include "trainer/report/timestamp.h"

namespace penstock::run_view {
namespace {

using nlohmann::json;

template <class T>
T value_or(const json& object, const char* key, T otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_same_v<T, bool>) {
    return found->is_boolean() ? found->get<bool>() : otherwise;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->get<std::string>() : otherwise;
  } else {
    return found->is_number() ? found->get<T>() : otherwise;
  }
}

template <class T>
std::optional<T> optional_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<T>();
}

}  // namespace

std::optional<StatusRecord> parse_status(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object() || !object.contains("state") || !object["state"].is_string()) return std::nullopt;
  StatusRecord made;
  made.state = object["state"].get<std::string>();
  made.time = report::parse_timestamp(value_or<std::string>(object, "time", ""));
  made.pid = value_or<int64_t>(object, "pid", 0);
  made.attempt = value_or<int64_t>(object, "attempt", 1);
  made.step = value_or<int64_t>(object, "step", 0);
  made.steps = value_or<int64_t>(object, "steps", 0);
  made.needs_resume = value_or<bool>(object, "needs_resume", true);
  made.loss = optional_of<double>(object, "loss");
  if (object.contains("loss") && object["loss"].is_null())
    made.loss = std::numeric_limits<double>::quiet_NaN();
  made.seconds_left = optional_of<double>(object, "seconds_left");
  made.last_checkpoint = optional_of<int64_t>(object, "last_checkpoint");
  made.exit_code = optional_of<int>(object, "exit_code");
  made.reason = value_or<std::string>(object, "reason", "");
  return made;
}

std::optional<RunEvent> parse_event(std::string_view line) {
  RunEvent made;
  made.details = json::parse(line, nullptr, false);
  if (!made.details.is_object()) return std::nullopt;
  made.name = value_or<std::string>(made.details, "event", "");
  if (made.name.empty()) return std::nullopt;
  made.attempt = value_or<int64_t>(made.details, "attempt", 1);
  made.step = value_or<int64_t>(made.details, "step", 0);
  made.time = report::parse_timestamp(value_or<std::string>(made.details, "time", ""));
  return made;
}

std::optional<Holder> parse_holder(std::string_view text) {
  constexpr std::string_view process = "process ";
  constexpr std::string_view on = " on ";
  constexpr std::string_view since = " since ";
  if (text.substr(0, process.size()) != process) return std::nullopt;
  text.remove_prefix(process.size());
  const size_t host = text.find(on);
  const size_t time = text.rfind(since);
  if (host == std::string_view::npos || time == std::string_view::npos || time < host) return std::nullopt;
  Holder made;
  const auto [end, error] = std::from_chars(text.data(), text.data() + host, made.pid);
  if (error != std::errc() || end != text.data() + host) return std::nullopt;
  made.host = text.substr(host + on.size(), time - host - on.size());
  text = text.substr(time + since.size());
  made.since = text.substr(0, text.find_last_not_of(" \n") + 1);
  return made;
}

}  // namespace penstock::run_view
