#include "trainer/run_report/trace_data.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace penstock::run_report {
namespace {

using nlohmann::json;

// Microseconds with two digits: what a trace knows.
double rounded(double microseconds) {
  return std::round(microseconds * 100) / 100;
}

double number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string words(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Puts a Chrome trace together as lists.
class Compactor {
 public:
  explicit Compactor(const json& trace) : trace_(trace) {}

  // Nothing: more slices than there is room for.
  std::optional<json> compact(size_t& room) {
    double origin = -1;
    for (const json& event : trace_["traceEvents"]) {
      if (!event.is_object()) continue;
      if (is_slice(event)) {
        const double begin = number(event, "ts");
        origin = origin < 0 ? begin : std::min(origin, begin);
      }
    }
    for (const json& event : trace_["traceEvents"]) {
      if (event.is_object()) add(event, origin);
    }
    if (slices_.size() > room) return std::nullopt;
    room -= slices_.size();
    json tracks = json::array();
    for (const auto& [place, track] : tracks_) tracks.push_back({place.first, track.second});
    json arrows = json::array();
    for (const auto& [id, ends] : arrows_) {
      if (ends.first.is_array() && ends.second.is_array())
        arrows.push_back({ends.first[0], ends.first[1], ends.second[0], ends.second[1], ends.first[2]});
    }
    json other = trace_.contains("otherData") ? trace_["otherData"] : json::object();
    return json{{"step", number(other, "step")},
                {"schedule", words(other, "schedule")},
                {"clock_error_us", number(other, "clock_error_us")},
                {"tracks", tracks},
                {"names", names_},
                {"slices", slices_},
                {"arrows", arrows}};
  }

 private:
  using Place = std::pair<int64_t, int64_t>;  // rank, stream

  static bool is_slice(const json& event) {
    return words(event, "ph") == "X" && words(event, "cat") != "message";
  }
  static Place place_of(const json& event) {
    return {static_cast<int64_t>(number(event, "pid")), static_cast<int64_t>(number(event, "tid"))};
  }
  size_t track(const Place& place) {
    auto [at, added] = tracks_.try_emplace(place, tracks_.size(), "");
    return at->second.first;
  }
  size_t name(const std::string& text) {
    const auto [at, added] = index_.try_emplace(text, names_.size());
    if (added) names_.push_back(text);
    return at->second;
  }

  void add(const json& event, double origin) {
    const std::string phase = words(event, "ph");
    const json arguments =
        event.contains("args") && event["args"].is_object() ? event["args"] : json::object();
    if (phase == "M" && words(event, "name") == "thread_name") {
      track(place_of(event));
      tracks_[place_of(event)].second = words(arguments, "name");
    } else if (is_slice(event)) {
      json slice{track(place_of(event)), rounded(number(event, "ts") - origin), rounded(number(event, "dur")),
                 name(words(event, "name"))};
      // Of messages what was sent, and to or from whom.
      if (arguments.contains("bytes")) {
        slice.push_back(static_cast<int64_t>(number(arguments, "bytes")));
        slice.push_back(static_cast<int64_t>(number(arguments, "peer")));
      }
      slices_.push_back(std::move(slice));
    } else if (phase == "s" || phase == "f") {
      auto& [from, to] = arrows_[static_cast<int64_t>(number(event, "id"))];
      (phase == "s" ? from : to) =
          json{track(place_of(event)), rounded(number(event, "ts") - origin), name(words(event, "name"))};
    }
  }

  const json& trace_;
  std::map<Place, std::pair<size_t, std::string>> tracks_;
  std::map<std::string, size_t> index_;
  json names_ = json::array();
  json slices_ = json::array();
  std::map<int64_t, std::pair<json, json>> arrows_;
};

std::vector<std::filesystem::path> chosen_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".json")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.size() <= most_traces) return files;
  std::vector<std::filesystem::path> chosen;
  for (size_t i = 0; i < most_traces; ++i)
    chosen.push_back(files[i * (files.size() - 1) / (most_traces - 1)]);
  return chosen;
}

}  // namespace

json traces_of(const std::filesystem::path& folder, json& notes) {
  json made = json::array();
  size_t room = most_slices;
  for (const std::filesystem::path& file : chosen_files(folder)) {
    std::ifstream in(file);
    const json trace = json::parse(in, nullptr, false);
    if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array()) {
      notes.push_back(fmt::format("{} is no trace and was left out", file.filename().string()));
    } else if (std::optional<json> compact = Compactor(trace).compact(room)) {
      made.push_back(std::move(*compact));
    } else {
      notes.push_back(
          fmt::format("{} has more slices than a page has room for ({} of all traces): open it in Perfetto",
                      file.filename().string(), most_slices));
    }
  }
  return made;
}

}  // namespace penstock::run_report
