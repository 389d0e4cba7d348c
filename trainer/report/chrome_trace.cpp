#include "trainer/report/chrome_trace.h"

namespace penstock::report {
namespace {

using nlohmann::ordered_json;

// The format counts in microseconds.
double micros(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1000;
}

}  // namespace

void ChromeTrace::name_process(int process, std::string_view name) {
  metadata({process, 0}, "process_name", {{"name", name}});
  metadata({process, 0}, "process_sort_index", {{"sort_index", process}});
}

void ChromeTrace::name_thread(const Track& track, std::string_view name) {
  metadata(track, "thread_name", {{"name", name}});
  metadata(track, "thread_sort_index", {{"sort_index", track.thread}});
}

void ChromeTrace::metadata(const Track& track, const char* what, const ordered_json& value) {
  add({{"ph", "M"}, {"pid", track.process}, {"tid", track.thread}, {"name", what}, {"args", value}});
}

void ChromeTrace::slice(const Track& track, int64_t begin, int64_t end, std::string_view name,
                        std::string_view category, const ordered_json& details) {
  add({{"ph", "X"},
       {"pid", track.process},
       {"tid", track.thread},
       {"ts", micros(begin)},
       {"dur", micros(end - begin)},
       {"name", name},
       {"cat", category},
       {"args", details}});
}

void ChromeTrace::arrow_begin(const Track& track, int64_t at, std::string_view name, int64_t id) {
  arrow(track, at, name, id, false);
}

void ChromeTrace::arrow_end(const Track& track, int64_t at, std::string_view name, int64_t id) {
  arrow(track, at, name, id, true);
}

void ChromeTrace::arrow(const Track& track, int64_t at, std::string_view name, int64_t id, bool ends) {
  ordered_json event{{"ph", ends ? "f" : "s"},
                     {"pid", track.process},
                     {"tid", track.thread},
                     {"ts", micros(at)},
                     {"name", name},
                     {"cat", "message"},
                     {"id", id}};
  // Perfetto points an arrow from the slice that starts earlier to the other one, and a receive may be posted
  // before the message is sent: each end has a slice of its own, of a nanosecond.
  slice(track, at, at + 1, ends ? "arrives" : "leaves", "message", {{"message", name}});
  // Without it an arrow ends in the next slice, not in the one around it.
  if (ends) event["bp"] = "e";
  add(event);
}

void ChromeTrace::counter(int process, int64_t at, std::string_view name, const ordered_json& values) {
  add({{"ph", "C"}, {"pid", process}, {"ts", micros(at)}, {"name", name}, {"args", values}});
}

void ChromeTrace::add(const ordered_json& event) {
  if (!events_.empty()) events_ += ",\n";
  events_ += event.dump();
}

std::string ChromeTrace::file(std::span<const std::string> events, const ordered_json& details) {
  std::string text = R"({"displayTimeUnit":"ms","otherData":)" + details.dump() + ",\"traceEvents\":[\n";
  const char* separator = "";
  for (const std::string& part : events) {
    if (part.empty()) continue;
    text += separator;
    text += part;
    separator = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace penstock::report
