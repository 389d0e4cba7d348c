// metrics.jsonl as the budget sees it.
#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "trainer/budget/gate.h"
#include "trainer/budget/step_line.h"

namespace penstock::budget {

using accounting::Part;
using nlohmann::json;

namespace {

constexpr double millisecond = 1e-3;

double value(const json& row, const std::string& key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : 0;  // zeros are left out
}

class LineReader {
 public:
  LineReader(const json& line, std::string place) : line_(line), place_(std::move(place)) {}

  StepObservation read() const {
    StepObservation made;
    made.step = static_cast<int64_t>(number("step"));
    made.seconds = millisecond * number("step_ms");
    made.bubble_ratio = number("bubble_ratio");
    made.stage_imbalance = number("stage_imbalance");
    made.drain = millisecond * number("drain_ms");
    made.slowest_stage = static_cast<int>(number("slowest_stage"));
    if (line_.contains("ranks") && line_["ranks"].is_array()) add_ranks(made);
    made.paused = made.parts.pauses() > 0;
    // What the parts add up to; step_ms is without what the host did between two steps.
    if (const double accounted = longest(); accounted > 0)
      made.seconds = millisecond * accounted - made.parts.pauses();
    return made;
  }

 private:
  double number(const char* key) const {
    if (line_.contains(key) && line_[key].is_number()) return line_[key].get<double>();
    throw data::DataError(
        fmt::format("{}: no number \"{}\": a step that was not accounted for, or of a run of another version",
                    place_, key));
  }

  /// accounted_ms, of the replica whose steps are the longest; 0: none.
  double longest() const {
    double found = 0;
    if (line_.contains("ranks") && line_["ranks"].is_array()) {
      for (const json& row : line_["ranks"]) found = std::max(found, value(row, "accounted_ms"));
    }
    return found;
  }

  void add_ranks(StepObservation& made) const {
    const json& rows = line_["ranks"];
    double busiest = -1;
    for (const json& row : rows) {
      const accounting::PartSeconds parts = parts_of_row(row);
      for (size_t at = 0; at < accounting::part_count; ++at) {
        const auto part = static_cast<Part>(at);
        made.parts[part] += parts[part] / static_cast<double>(rows.size());
      }
      if (parts.busy() > busiest) {
        busiest = parts.busy();
        made.slowest_rank = static_cast<int>(value(row, "rank"));
      }
      const double waited = millisecond * value(row, "root_ms");
      if (waited <= 0) continue;
      const int link = row.contains("root_link_to") ? static_cast<int>(value(row, "root_link_to")) : -1;
      add_culprit(made.roots, {static_cast<int>(value(row, "root_rank")), link, waited});
    }
  }

  const json& line_;
  std::string place_;
};

}  // namespace

accounting::PartSeconds parts_of_row(const json& row) {
  accounting::PartSeconds parts;
  for (size_t at = 0; at < accounting::part_count; ++at) {
    const auto part = static_cast<Part>(at);
    parts[part] = millisecond * value(row, fmt::format("{}_ms", accounting::name_of(part)));
  }
  return parts;
}

StepObservation observation_of_line(const json& line, std::string place) {
  return LineReader(line, std::move(place)).read();
}

std::vector<StepObservation> read_steps(const std::string& metrics_file) {
  std::ifstream in(metrics_file);
  if (!in) {
    throw data::DataError(
        fmt::format("{}: cannot be read: name the folder of a run that has made steps", metrics_file));
  }
  std::vector<StepObservation> steps;
  int64_t number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    const bool whole = !in.eof();
    const json line = json::parse(text, nullptr, false);
    if (line.is_discarded() && !whole) break;  // the run is writing it
    const std::string place = fmt::format("{}:{}", metrics_file, number);
    if (!line.is_object()) throw data::DataError(fmt::format("{}: is no step of a run", place));
    StepObservation step = observation_of_line(line, place);
    while (!steps.empty() && steps.back().step >= step.step) steps.pop_back();
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace penstock::budget
