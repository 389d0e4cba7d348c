#include "trainer/run_report/report_data.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "trainer/report/timestamp.h"
#include "trainer/run_report/run_history.h"
#include "trainer/run_report/trace_data.h"
#include "trainer/run_view/line_tail.h"
#include "trainer/run_view/run_advice.h"
#include "trainer/run_view/run_state.h"
#include "trainer/run_view/run_summary.h"
#include "trainer/version/version.h"

namespace penstock::run_report {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using run_view::Cause;
using run_view::RunEvent;

// Five digits are more than a chart shows, and a third of the bytes.
json short_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == 0) return 0;
  const double unit = std::pow(10.0, 4 - std::floor(std::log10(std::abs(value))));
  const double rounded = std::round(value * unit) / unit;
  return rounded == std::floor(rounded) && std::abs(rounded) < 1e15 ? json(static_cast<int64_t>(rounded))
                                                                    : json(rounded);
}
json short_number(const std::optional<double>& value) {
  return value ? short_number(*value) : json();
}

json read_object(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) return json::object();
  json made = json::parse(in, nullptr, false);
  return made.is_object() ? made : json::object();
}

ordered_json causes_json() {
  ordered_json made = ordered_json::array();
  for (size_t at = 0; at < run_view::cause_count; ++at) {
    const run_view::CauseLook& look = run_view::cause_looks[at];
    made.push_back({{"name", look.name},
                    {"meaning", look.meaning},
                    {"light", look.light},
                    {"dark", look.dark},
                    {"dark_text", look.dark_text},
                    {"idle", at >= run_view::first_idle_cause}});
  }
  return made;
}

// Milliseconds by cause, in the order of `causes`.
json in_milliseconds(const run_view::CauseSums& causes, double factor = 1) {
  json made = json::array();
  for (size_t at = 0; at < run_view::cause_count; ++at)
    made.push_back(short_number(1e3 * factor * causes[static_cast<Cause>(at)]));
  return made;
}

ordered_json steps_json(const RunHistory& history) {
  ordered_json made;
  const auto column = [&](const char* name, auto value) {
    json values = json::array();
    for (const Bucket& bucket : history.buckets) values.push_back(value(bucket));
    made[name] = values;
  };
  made["count"] = history.steps;
  column("first", [](const Bucket& b) { return json(b.first_step); });
  column("last", [](const Bucket& b) { return json(b.last_step); });
  column("loss", [](const Bucket& b) { return short_number(b.loss); });
  column("step_ms", [](const Bucket& b) { return short_number(1e3 * b.step); });
  column("longest_step_ms", [](const Bucket& b) { return short_number(1e3 * b.longest_step); });
  column("tokens_per_second",
         [](const Bucket& b) { return b.seconds > 0 ? short_number(b.tokens / b.seconds) : json(); });
  column("bubble_ratio", [](const Bucket& b) { return short_number(b.bubble_ratio); });
  column("stage_imbalance", [](const Bucket& b) { return short_number(b.stage_imbalance); });
  column("predicted_step_ms",
         [](const Bucket& b) { return b.predicted_step ? short_number(1e3 * *b.predicted_step) : json(); });
  column("causes_ms",
         [](const Bucket& b) { return in_milliseconds(b.causes, 1 / static_cast<double>(b.steps)); });
  return made;
}

ordered_json ranks_json(const RunHistory& history, const json& plan) {
  ordered_json made = ordered_json::array();
  for (const RankHistory& rank : history.ranks) {
    run_view::CauseSums causes;
    causes.add(rank.parts);
    json parts = json::object();
    for (size_t at = 0; at < accounting::part_count; ++at) {
      const auto part = static_cast<accounting::Part>(at);
      if (rank.parts[part] > 0)
        parts[std::string(accounting::name_of(part))] = short_number(1e3 * rank.parts[part]);
    }
    json behind = json::array();
    for (const auto& [root, seconds] : rank.behind)
      behind.push_back({{"rank", root.first}, {"link_to", root.second}, {"ms", short_number(1e3 * seconds)}});
    ordered_json row{{"rank", rank.rank},
                     {"replica", rank.replica},
                     {"busy_ms", short_number(1e3 * rank.parts.busy())},
                     {"causes_ms", in_milliseconds(causes)},
                     {"parts_ms", parts},
                     {"waited_for", behind}};
    const auto index = static_cast<size_t>(rank.rank);
    if (plan.contains("ranks") && plan["ranks"].is_array() && index < plan["ranks"].size() &&
        plan["ranks"][index].is_object()) {
      const json& planned = plan["ranks"][index];
      json arenas = json::object();
      if (planned.contains("arenas") && planned["arenas"].is_object()) {
        for (const auto& [name, arena] : planned["arenas"].items()) {
          if (arena.is_object() && arena.contains("bytes")) arenas[name] = arena["bytes"];
        }
      }
      for (const char* key : {"host_batches_bytes", "snapshot_bytes", "outside_bytes", "total_bytes"}) {
        if (planned.contains(key)) row[key] = planned[key];
      }
      row["arenas_bytes"] = arenas;
      if (planned.contains("stages")) row["stages"] = planned["stages"];
    }
    made.push_back(std::move(row));
  }
  return made;
}

ordered_json plan_json(const json& plan) {
  ordered_json made;
  for (const char* key : {"pipeline", "data", "schedule", "micro_batches", "parameters", "tokens_per_step"}) {
    if (plan.contains(key)) made[key] = plan[key];
  }
  if (!plan.contains("plan") || !plan["plan"].is_object()) return made;
  const json& planned = plan["plan"];
  for (const char* key : {"schedule", "chunks", "warmup_slack", "micro_batch", "partition", "recompute",
                          "predicted_step_ms", "bubble_ratio", "stage_imbalance", "source", "stages"}) {
    if (planned.contains(key)) made[key] = planned[key];
  }
  return made;
}

ordered_json goodput_json(const Goodput& goodput) {
  ordered_json parts = ordered_json::array();
  const auto add = [&](const std::string& name, double seconds) {
    if (seconds > 0) parts.push_back({{"name", name}, {"seconds", short_number(seconds)}});
  };
  for (size_t at = 0; at < run_view::cause_count; ++at)
    add(run_view::cause_looks[at].name, goodput.steps[static_cast<Cause>(at)]);
  add("redone steps", goodput.redone_steps);
  add("start and end", goodput.starting);
  add("not running", goodput.not_running);
  const double work = goodput.steps.all() - goodput.steps.idle() - goodput.steps[Cause::recompute];
  return {{"wall_seconds", short_number(goodput.wall)},
          {"goodput", short_number(goodput.wall > 0 ? work / goodput.wall : 0)},
          {"parts", parts}};
}

const std::set<std::string>& telling_events() {
  static const std::set<std::string> names{"start",          "end",
                                           "nonfinite",      "spike",
                                           "budget_alarm",   "save_failed",
                                           "watchdog",       "budget_alarm_over",
                                           "budget_kept",    "budget_decision",
                                           "rearranged",     "budget_rolled_back",
                                           "budget_by_hand", "budget_refused",
                                           "budget_failed",  "advice"};
  return names;
}

// All that tell something; of evaluations, saves and the like the last ones, as far as there is room.
ordered_json events_json(const std::vector<RunEvent>& events) {
  std::vector<const RunEvent*> chosen;
  size_t telling = 0;
  for (const RunEvent& event : events) telling += telling_events().count(event.name);
  size_t others = most_events - std::min(most_events, telling);
  for (auto event = events.rbegin(); event != events.rend() && chosen.size() < most_events; ++event) {
    const bool tells = telling_events().count(event->name) > 0;
    if (!tells && others == 0) continue;
    others -= tells ? 0 : 1;
    chosen.push_back(&*event);
  }
  ordered_json made = ordered_json::array();
  for (auto event = chosen.rbegin(); event != chosen.rend(); ++event) {
    made.push_back({{"step", (*event)->step},
                    {"attempt", (*event)->attempt},
                    {"time", (*event)->time ? report::timestamp(*(*event)->time) : ""},
                    {"event", (*event)->name},
                    {"text", text_of(**event)}});
  }
  return made;
}

ordered_json validation_json(const std::vector<RunEvent>& events) {
  std::map<int64_t, double> losses;  // of an evaluation that was done again the last
  for (const RunEvent& event : events) {
    const auto loss = event.details.find("loss");
    if (event.name == "evaluation" && loss != event.details.end() && loss->is_number())
      losses[event.step] = loss->get<double>();
  }
  ordered_json made = ordered_json::array();
  const size_t each = losses.size() / static_cast<size_t>(most_points) + 1;
  size_t number = 0;
  for (const auto& [step, loss] : losses) {
    if (++number % each == 0 || number == losses.size()) made.push_back({step, short_number(loss)});
  }
  return made;
}

ordered_json run_json(const std::filesystem::path& folder, const run_view::Surroundings& around) {
  run_view::RunState state(folder);
  state.refresh(around);
  if (state.liveness().life == run_view::Life::not_begun && !state.job()) {
    throw data::DataError(
        fmt::format("{}: found no job.toml and no status.json; expected the folder of a run, as "
                    "runs/NAME",
                    folder.string()));
  }
  std::vector<RunEvent> events;
  run_view::LineTail(state.paths().events().string()).read([&](std::string_view line) {
    if (std::optional<RunEvent> event = run_view::parse_event(line)) events.push_back(std::move(*event));
  });
  const RunHistory history = read_history(state.paths().metrics().string(), events, most_points);
  const json plan = read_object(state.paths().plan());
  json notes = json::array();
  ordered_json made{{"name", folder.lexically_normal().filename().string()},
                    {"summary", run_view::summary_json(state)},
                    {"steps", steps_json(history)},
                    {"validation", validation_json(events)},
                    {"ranks", ranks_json(history, plan)},
                    {"plan", plan_json(plan)}};
  if (made["name"].get<std::string>().empty())
    made["name"] = folder.lexically_normal().parent_path().filename().string();
  if (state.job()) {
    const Job& job = *state.job();
    made["job"] = {{"layers", job.model.layers},
                   {"hidden_size", job.model.hidden_size},
                   {"sequence_length", job.model.sequence_length},
                   {"global_batch", job.batch.global},
                   {"micro_batch", job.batch.micro},
                   {"pipeline", job.parallel.pipeline},
                   {"replicas", job.parallel.data},
                   {"schedule", job.parallel.schedule},
                   {"chunks", job.parallel.chunks},
                   {"partition", job.parallel.partition_units}};
  }
  const json about = read_object(state.paths().environment());
  for (const char* pointer : {"/host", "/processor/model", "/build/version", "/system/name"}) {
    const json::json_pointer at(pointer);
    if (about.contains(at) && about[at].is_string()) made["environment"][pointer + 1] = about[at];
  }
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->name != "prediction") continue;
    made["prediction"] = event->details;
    break;
  }
  made["goodput"] = goodput_json(history.goodput);
  made["attempts"] = history.attempts;
  made["events"] = events_json(events);
  made["advice"] = advice::json_of(run_view::advise_run(folder));
  made["traces"] = traces_of(state.paths().trace(), notes);
  if (history.damaged_lines > 0)
    notes.push_back(fmt::format("{} damaged lines of metrics.jsonl were left out", history.damaged_lines));
  made["notes"] = notes;
  return made;
}

}  // namespace

ordered_json report_data(const std::vector<std::filesystem::path>& runs,
                         const run_view::Surroundings& around) {
  ordered_json made{{"schema", 1},
                    {"program", "penstock " + build_info().version},
                    {"time", report::timestamp(around.now)},
                    {"causes", causes_json()},
                    {"runs", ordered_json::array()}};
  for (const std::filesystem::path& run : runs) made["runs"].push_back(run_json(run, around));
  return made;
}

}  // namespace penstock::run_report
