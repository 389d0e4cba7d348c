#include "trainer/run_profile.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "data/json/json_fault.h"
#include "model/unit_id.h"
#include "parallel/planner/refined_costs.h"
#include "parallel/runtime/model_footprint.h"
#include "trainer/job/read_job.h"
#include "trainer/job_costs.h"
#include "trainer/job_profile.h"
#include "trainer/run_folder.h"

namespace penstock {
namespace {

using nlohmann::json;
using planner::MeasuredMode;
using planner::MeasuredRun;
using planner::MeasuredUnit;
using planner::ModeCosts;
using planner::ProfileError;
using planner::Recompute;
using planner::Timing;

constexpr int64_t kFirstSteps = 3;
constexpr size_t kMostSteps = 100;
constexpr std::streamoff kMostBytes = 64 << 20;  // of metrics.jsonl: more than kMostSteps of a thousand ranks
constexpr double kMostMilliseconds = 1e9;        // a profile's longest time
constexpr const char* kLineAdvice = "take the line out if it was damaged: the other steps will do";

// What metrics.jsonl calls a rank's parts.
constexpr std::array<const char*, 5> kParts{"forward_ms", "recompute_ms", "backward_input_ms",
                                            "backward_weight_ms", "optimizer_ms"};
enum Part : size_t { forward, recompute, backward_input, backward_weight, optimizer };

// A record of the run that is missing or damaged. `place`: "FILE" or "FILE:LINE".
[[noreturn]] void refuse(const std::string& place, const std::string& found, const std::string& expected,
                         const std::string& advice) {
  throw data::DataError(fmt::format("{}: found {}; expected {}; {}", place, found, expected, advice));
}

std::string shown(const std::string& text) {
  constexpr size_t most = 60;
  return text.size() > most ? text.substr(0, most) + "…" : text;
}

// Replaced where it is no UTF-8: a damaged file may hold anything.
std::string shown(const json& value) {
  return shown(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

// All of a file, or its last `most` bytes, from the start of a line.
std::string read_text(const std::filesystem::path& path, std::streamoff most = 0) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    refuse(path.string(), "a folder", "a file that the run wrote", "name the run's own folder");
  errno = 0;
  std::ifstream in(path);
  std::ostringstream text;
  if (const auto size = std::filesystem::file_size(path, error);
      !error && most > 0 && size > static_cast<uintmax_t>(most)) {
    in.seekg(-most, std::ios::end);
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (in) text << in.rdbuf();
  if (!in) {
    refuse(path.string(), fmt::format("nothing that can be read ({})", std::strerror(errno)),
           "a file that every run writes from its first step on",
           "name the folder of a run that has made steps, or measure with `penstock profile job.toml`");
  }
  return text.str();
}

json read_json(const std::string& text, const std::string& place, const std::string& advice) {
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    const data::JsonFault fault = data::json_fault(text, error);
    refuse(place,
           fmt::format("text that is no JSON (line {}, column {}: {})", fault.line, fault.column, fault.what),
           "one JSON object", advice);
  }
}

// Units [begin, end) of a stage.
struct Stage {
  int begin = 0;
  int end = 0;
};

class Reader {
 public:
  explicit Reader(const RunPaths& paths, const Job& job) : paths_(paths), job_(job) {}

  // By pipeline rank, from plan.json: "embedding to mlp_1".
  std::vector<std::vector<Stage>> stages() const {
    const std::string place = paths_.plan().string();
    const std::string advice = "start the run again for a moment: it writes its plan anew";
    const json plan = read_json(read_text(paths_.plan()), place, advice);
    std::map<std::string, int> units;
    for (int unit = 0; unit < model::unit_count(job_.model); ++unit)
      units[name_of(model::unit_at(job_.model, unit))] = unit;
    const auto unit_of = [&](const std::string& name) {
      const auto found = units.find(name);
      if (found == units.end())
        refuse(place, fmt::format("\"{}\", which is no unit of the run's model", shown(name)),
               "units of the job.toml beside it", advice);
      return found->second;
    };
    if (!plan.is_object() || !plan.contains("ranks") || !plan["ranks"].is_array())
      refuse(place, fmt::format("{}, which is no plan", shown(plan)), "an object with a list `ranks`",
             advice);
    std::vector<std::vector<Stage>> ranks;
    for (const json& rank : plan["ranks"]) {
      std::vector<Stage>& made = ranks.emplace_back();
      if (!rank.is_object() || !rank.contains("stages") || !rank["stages"].is_array())
        refuse(place, fmt::format("{} at /ranks/{}", shown(rank), ranks.size() - 1),
               "an object with a list `stages`", advice);
      for (const json& stage : rank["stages"]) {
        const std::string text = stage.is_string() ? stage.get<std::string>() : stage.dump();
        const size_t to = text.find(" to ");
        const int first = unit_of(text.substr(0, to));
        made.push_back({first, 1 + (to == std::string::npos ? first : unit_of(text.substr(to + 4)))});
      }
    }
    return ranks;
  }

  // Milliseconds of each part of each rank, a step a row: samples[rank][part]; the last attempt's last steps.
  struct Samples {
    std::vector<std::array<std::vector<double>, kParts.size()>> ranks;
    int64_t steps = 0;
    std::vector<std::string> notes;
  };
  Samples samples(size_t ranks) const {
    std::error_code error;
    const bool long_run =
        std::filesystem::file_size(paths_.metrics(), error) > static_cast<uintmax_t>(kMostBytes);
    const std::string place = paths_.metrics().string() + (!error && long_run ? " (its end)" : "");
    std::istringstream text(read_text(paths_.metrics(), kMostBytes));
    Samples all;
    std::vector<std::pair<int64_t, json>> lines;
    int64_t number = 0;
    int64_t attempt = -1;
    for (std::string line; std::getline(text, line);) {
      ++number;
      const std::string at = fmt::format("{}:{}", place, number);
      if (text.eof() && json::parse(line, nullptr, false).is_discarded()) {
        all.notes.push_back(fmt::format(
            "{}: skipped: the last line is incomplete ({} bytes, no end of line); the run is writing it, or "
            "was killed while it did",
            at, line.size()));
        break;
      }
      const json step = read_json(line, at, kLineAdvice);
      if (!step.is_object()) refuse(at, shown(step), "a step's object", kLineAdvice);
      const auto stated = step.find("attempt");
      if (stated == step.end() || !stated->is_number_integer()) {
        refuse(at, stated == step.end() ? "a step without `attempt`" : "`attempt` = " + shown(*stated),
               "the number of the run's start, a whole number", kLineAdvice);
      }
      if (stated->get<int64_t>() != attempt) lines.clear();
      attempt = stated->get<int64_t>();
      if (step.contains("ranks")) lines.emplace_back(number, step["ranks"]);
    }
    const auto first = lines.size() > static_cast<size_t>(2 * kFirstSteps) ? kFirstSteps : 0;
    lines.erase(lines.begin(), lines.begin() + first);
    if (lines.size() > kMostSteps) lines.erase(lines.begin(), lines.end() - kMostSteps);
    if (lines.empty()) {
      refuse(place, fmt::format("{} lines, none of which says what its ranks did (`ranks`)", number),
             "a step that does",
             "let the run come further; one of a version that did not account for its ranks cannot be used");
    }
    all.ranks.resize(ranks);
    all.steps = static_cast<int64_t>(lines.size());
    for (const auto& [at, step] : lines) add_step(step, fmt::format("{}:{}", place, at), all);
    return all;
  }

 private:
  // The mean over the replicas.
  static void add_step(const json& step, const std::string& place, Samples& all) {
    std::vector<std::array<double, kParts.size()>> sums(all.ranks.size());
    std::vector<int> replicas(all.ranks.size(), 0);
    if (!step.is_array())
      refuse(place, "`ranks` = " + shown(step), "a list of objects, one a rank", kLineAdvice);
    for (const json& row : step) {
      const auto stated = row.is_object() ? row.find("rank") : row.end();
      const bool known = row.is_object() && stated != row.end() && stated->is_number_integer();
      const int64_t rank = known ? stated->get<int64_t>() : -1;
      if (rank < 0 || rank >= static_cast<int64_t>(sums.size())) {
        refuse(place, fmt::format("{} in `ranks`", shown(row)),
               fmt::format("a rank that plan.json has: \"rank\" from 0 to {}", sums.size() - 1), kLineAdvice);
      }
      const auto index = static_cast<size_t>(rank);
      ++replicas[index];
      for (size_t part = 0; part < kParts.size(); ++part) {
        const auto found = row.find(kParts[part]);
        if (found == row.end()) continue;  // zeros are left out
        const double value = found->is_number() ? found->get<double>() : -1;
        if (!(value >= 0 && value <= kMostMilliseconds)) {
          refuse(place, fmt::format("{} = {} of rank {}", kParts[part], shown(*found), rank),
                 fmt::format("milliseconds from 0 to {}", kMostMilliseconds), kLineAdvice);
        }
        sums[index][part] += value;
      }
    }
    for (size_t rank = 0; rank < sums.size(); ++rank) {
      if (replicas[rank] == 0) {
        refuse(place, fmt::format("nothing of rank {} in `ranks`", rank),
               fmt::format("each of the {} ranks that plan.json has", sums.size()), kLineAdvice);
      }
      for (size_t part = 0; part < kParts.size(); ++part)
        all.ranks[rank][part].push_back(1e-3 * sums[rank][part] / replicas[rank]);
    }
  }

  const RunPaths& paths_;
  const Job& job_;
};

// A figure of the scaled costs with the spread that the rank's sum had.
Timing timing(double seconds, const Timing& measured) {
  Timing made;
  made.median = seconds;
  made.spread = measured.median > 0 ? seconds * measured.spread / measured.median : 0;
  made.samples = measured.samples;
  return made;
}

std::string device_of(const RunPaths& paths, const Job& job, const Device& here) {
  std::error_code error;
  if (!std::filesystem::exists(paths.environment(), error)) return here.description();
  const json environment = json::parse(read_text(paths.environment()), nullptr, false);
  const json::json_pointer model("/processor/model");
  if (environment.is_discarded() || !environment.contains(model) || !environment[model].is_string())
    return here.description();
  return fmt::format("{} ({} thread{})", environment[model].get<std::string>(), job.parallel.threads,
                     job.parallel.threads == 1 ? "" : "s");
}

// Splits a rank's measured time among its units, kind by kind.
class Builder {
 public:
  Builder(const Job& job, const std::string& place, std::vector<std::vector<Stage>> ranks,
          Reader::Samples samples)
      : job_(job), ranks_(std::move(ranks)) {
    std::vector<Stage> in_order;
    for (const auto& stages : ranks_) in_order.insert(in_order.end(), stages.begin(), stages.end());
    std::sort(in_order.begin(), in_order.end(),
              [](const Stage& a, const Stage& b) { return a.begin < b.begin; });
    // Two copies of the weights: two ranks hold each stage, and each computes half of the micro-batches.
    const size_t all = in_order.size();
    const auto same = [](const Stage& a, const Stage& b) { return a.begin == b.begin && a.end == b.end; };
    in_order.erase(std::unique(in_order.begin(), in_order.end(), same), in_order.end());
    if (all == 2 * in_order.size()) copies_ = 2;
    for (size_t stage = 0; stage < in_order.size(); ++stage) {
      const std::vector<RecomputeMode>& listed = job.recompute.stages;
      const RecomputeMode mode = stage < listed.size() ? listed[stage] : job.recompute.mode;
      for (int unit = in_order[stage].begin; unit < in_order[stage].end; ++unit)
        modes_.push_back(runtime::planned_mode(mode));
    }
    if (modes_.size() != static_cast<size_t>(model::unit_count(job.model)))
      refuse(place, fmt::format("stages of {} units in all", modes_.size()),
             fmt::format("the {} units of the run's model", model::unit_count(job.model)),
             "start the run again for a moment: it writes its plan anew");
    for (auto& rank : samples.ranks) {
      auto& timings = timings_.emplace_back();
      for (size_t part = 0; part < kParts.size(); ++part)
        timings[part] = runtime::timing_of(std::move(rank[part]));
    }
  }

  planner::ModelCosts scale(planner::ModelCosts costs) const {
    std::vector<MeasuredRun> runs;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      MeasuredRun& run = runs.emplace_back();
      run.micro_batches = job_.micro_batches() / static_cast<int64_t>(copies_);
      run.forward = timings_[rank][Part::forward].median;
      run.backward_input = timings_[rank][Part::backward_input].median;
      run.backward_weight = timings_[rank][Part::backward_weight].median;
      run.recompute = timings_[rank][Part::recompute].median;
      double steps = 0;
      for_units(rank, [&](size_t unit) {
        run.members.push_back({static_cast<int>(unit), modes_[unit]});
        steps += costs.units[unit].optimizer_step;
      });
      const double measured = timings_[rank][Part::optimizer].median;
      if (steps > 0 && measured > 0)
        for_units(rank, [&](size_t unit) { costs.units[unit].optimizer_step *= measured / steps; });
    }
    planner::RefinedCosts refined(std::move(costs));
    refined.fold(runs);
    return refined.costs();
  }

  // `skeleton`: an entry a kind.
  std::vector<MeasuredUnit> units(const planner::Profile& skeleton, const planner::ModelCosts& costs) const {
    std::vector<MeasuredUnit> made;
    for (const MeasuredUnit& kind : skeleton.units) {
      // The other half has the second copies.
      for (size_t rank = 0; rank < ranks_.size() / copies_; ++rank) {
        MeasuredUnit unit = kind;
        for_units(rank, [&](size_t index) {
          if (kind_of(index) != kind.kind) return;
          if (unit.only.empty()) take(costs.units[index], timings_[rank], unit);
          unit.only.push_back(costs.units[index].name);
        });
        if (unit.only.empty()) continue;
        const bool single = kind.kind == "embedding" || kind.kind == "head" || ranks_.size() == 1;
        if (single) unit.only.clear();
        made.push_back(std::move(unit));
      }
    }
    return made;
  }

 private:
  template <class Visit>
  void for_units(size_t rank, Visit visit) const {
    for (const Stage& stage : ranks_[rank]) {
      for (int unit = stage.begin; unit < stage.end; ++unit) visit(static_cast<size_t>(unit));
    }
  }

  std::string_view kind_of(size_t unit) const {
    switch (model::unit_at(job_.model, static_cast<int>(unit)).kind) {
      case model::UnitKind::embedding:
        return "embedding";
      case model::UnitKind::attention:
        return "attention";
      case model::UnitKind::mlp:
        return "mlp";
      case model::UnitKind::head:
        return "head";
    }
    return "";
  }

  static void take(const planner::UnitCosts& from, const std::array<Timing, kParts.size()>& timings,
                   MeasuredUnit& unit) {
    unit.optimizer_step = timing(from.optimizer_step, timings[Part::optimizer]);
    for (MeasuredMode& mode : unit.sizes.front().modes) {
      const ModeCosts& costs = from.in(mode.mode);
      mode.forward = timing(costs.forward, timings[Part::forward]);
      mode.recompute = timing(costs.recompute, timings[Part::recompute]);
      mode.backward_input = timing(costs.backward_input, timings[Part::backward_input]);
      mode.backward_weight = timing(costs.backward_weight, timings[Part::backward_weight]);
    }
  }

  const Job& job_;
  std::vector<std::vector<Stage>> ranks_;
  size_t copies_ = 1;                                       ///< of the weights
  std::vector<Recompute> modes_;                            ///< by unit
  std::vector<std::array<Timing, kParts.size()>> timings_;  ///< by rank
};

}  // namespace

RunProfile profile_from_run(const std::filesystem::path& run) {
  const RunPaths paths(run);
  std::error_code error;
  if (!std::filesystem::exists(paths.job(), error))
    throw ProfileError(fmt::format(
        "{}: is no run's folder: found no job.toml in it; expected `<run.folder>/<run.name>` of a job, as "
        "runs/NAME",
        run.string()));
  RunProfile made;
  made.job = read_job(paths.job(), {});
  Backend backend = make_backend(made.job, 0);
  const Reader reader(paths, made.job);
  std::vector<std::vector<Stage>> stages = reader.stages();
  Reader::Samples samples = reader.samples(stages.size());
  made.steps = samples.steps;
  made.notes = std::move(samples.notes);
  const Builder builder(made.job, paths.plan().string(), std::move(stages), std::move(samples));
  made.profile = profile_skeleton(backend.math,
                                  profile_request(made.job, {made.job.batch.micro},
                                                  {Recompute::none, Recompute::selective, Recompute::full}));
  describe(made.profile, made.job);
  made.profile.device = device_of(paths, made.job, *backend.device);
  made.profile.threads = made.job.parallel.threads;
  JobCosts split;
  if (std::filesystem::exists(paths.profile(), error)) {
    const std::string place = paths.profile().string();
    made.scaled = "as in " + place;
    const planner::Profile before = planner::read_profile_file(place);
    split.model = planner::model_costs(before, made.job.batch.micro);
    made.profile.threads_per_processor = before.threads_per_processor;
    made.profile.links = before.links;
    made.profile.reduction = before.reduction;
    made.profile.traffic_slowdown = before.traffic_slowdown;
  } else {
    made.scaled = "by formula";
    split = costs_by_formula(made.job, backend, std::nullopt, "");
  }
  made.profile.units = builder.units(made.profile, builder.scale(std::move(split.model)));
  return made;
}

}  // namespace penstock
