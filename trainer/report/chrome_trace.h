#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace penstock::report {

/// Builds a trace in Chrome's JSON format, as Perfetto (https://ui.perfetto.dev) and chrome://tracing read
/// it. Times are nanoseconds on one clock; an event is a line of the file.
class ChromeTrace {
 public:
  /// Where an event stands: a process is a rank, a thread one of its streams.
  struct Track {
    int process = 0;
    int thread = 0;
  };

  /// Processes are shown by number, threads of a process too.
  void name_process(int process, std::string_view name);
  void name_thread(const Track& track, std::string_view name);

  /// Slices of a track are added in the order of their times, and do not overlap. end > begin.
  void slice(const Track& track, int64_t begin, int64_t end, std::string_view name, std::string_view category,
             const nlohmann::ordered_json& details);
  /// An arrow from `at` in the slice of its track that encloses it to the end's `at`, each a slice of a
  /// nanosecond
  /// ("leaves", "arrives") within the other; the two ends have the same name and an id that no other arrow
  /// has. Each is added after the slice around it.
  void arrow_begin(const Track& track, int64_t at, std::string_view name, int64_t id);
  void arrow_end(const Track& track, int64_t at, std::string_view name, int64_t id);
  /// Numbers that hold from `at` on, drawn as one stacked graph a process and name.
  void counter(int process, int64_t at, std::string_view name, const nlohmann::ordered_json& values);

  /// The events so far.
  const std::string& events() const { return events_; }
  /// A whole file of the events of several builders; `details` say what it is a trace of.
  static std::string file(std::span<const std::string> events, const nlohmann::ordered_json& details);

 private:
  void metadata(const Track& track, const char* what, const nlohmann::ordered_json& value);
  void arrow(const Track& track, int64_t at, std::string_view name, int64_t id, bool ends);
  void add(const nlohmann::ordered_json& event);

  std::string events_;
};

}  // namespace penstock::report
