#include "trainer/run_profile.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

// What metrics.jsonl calls a rank's parts.
constexpr std::array<const char*, 5> kParts{"forward_ms", "recompute_ms", "backward_input_ms",
                                            "backward_weight_ms", "optimizer_ms"};
enum Part : size_t { forward, recompute, backward_input, backward_weight, optimizer };

std::string read_text(const std::filesystem::path& path) {
  const std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw ProfileError(fmt::format("{}: cannot be read", path.string()));
  return text.str();
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
    const json plan = json::parse(read_text(paths_.plan()), nullptr, false);
    std::map<std::string, int> units;
    for (int unit = 0; unit < model::unit_count(job_.model); ++unit)
      units[name_of(model::unit_at(job_.model, unit))] = unit;
    const auto unit_of = [&](const std::string& name) {
      const auto found = units.find(name);
      if (found == units.end())
        throw ProfileError(fmt::format("{}: \"{}\" is no unit of the run's model", place, name));
      return found->second;
    };
    if (!plan.is_object() || !plan.contains("ranks") || !plan["ranks"].is_array())
      throw ProfileError(fmt::format("{}: holds no plan: an object with `ranks` was expected", place));
    std::vector<std::vector<Stage>> ranks;
    for (const json& rank : plan["ranks"]) {
      std::vector<Stage>& made = ranks.emplace_back();
      if (!rank.is_object() || !rank.contains("stages") || !rank["stages"].is_array())
        throw ProfileError(fmt::format("{}: /ranks/{} names no stages", place, ranks.size() - 1));
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
  };
  Samples samples(size_t ranks) const {
    const std::string place = paths_.metrics().string();
    std::istringstream text(read_text(paths_.metrics()));
    std::vector<std::pair<int64_t, json>> lines;
    int64_t number = 0;
    int64_t attempt = -1;
    for (std::string line; std::getline(text, line);) {
      ++number;
      const json step = json::parse(line, nullptr, false);
      if (text.eof() && step.is_discarded()) break;  // the run is writing it
      if (!step.is_object() || !step.contains("attempt") || !step["attempt"].is_number_integer())
        throw ProfileError(fmt::format("{}:{}: is no step of a run", place, number));
      if (step["attempt"].get<int64_t>() != attempt) lines.clear();
      attempt = step["attempt"].get<int64_t>();
      if (step.contains("ranks")) lines.emplace_back(number, step["ranks"]);
    }
    const auto first = lines.size() > static_cast<size_t>(2 * kFirstSteps) ? kFirstSteps : 0;
    lines.erase(lines.begin(), lines.begin() + first);
    if (lines.size() > kMostSteps) lines.erase(lines.begin(), lines.end() - kMostSteps);
    if (lines.empty()) {
      throw ProfileError(fmt::format(
          "{}: no step says what its ranks did (`ranks`): the run has not come that far, or is of "
          "a version that did not account for them",
          place));
    }
    Samples all;
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
    for (const json& row : step) {
      const bool known = row.is_object() && row.contains("rank") && row["rank"].is_number_integer();
      const int64_t rank = known ? row["rank"].get<int64_t>() : -1;
      if (rank < 0 || rank >= static_cast<int64_t>(sums.size()))
        throw ProfileError(fmt::format("{}: a rank that plan.json does not have", place));
      const auto index = static_cast<size_t>(rank);
      ++replicas[index];
      for (size_t part = 0; part < kParts.size(); ++part) {
        if (!row.contains(kParts[part])) continue;  // zeros are left out
        if (!row[kParts[part]].is_number())
          throw ProfileError(fmt::format("{}: rank {}: {} is no number", place, rank, kParts[part]));
        sums[index][part] += row[kParts[part]].get<double>();
      }
    }
    for (size_t rank = 0; rank < sums.size(); ++rank) {
      if (replicas[rank] == 0) throw ProfileError(fmt::format("{}: nothing of rank {}", place, rank));
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
  Builder(const Job& job, std::vector<std::vector<Stage>> ranks, Reader::Samples samples)
      : job_(job), ranks_(std::move(ranks)) {
    std::vector<Stage> in_order;
    for (const auto& stages : ranks_) in_order.insert(in_order.end(), stages.begin(), stages.end());
    std::sort(in_order.begin(), in_order.end(),
              [](const Stage& a, const Stage& b) { return a.begin < b.begin; });
    for (size_t stage = 0; stage < in_order.size(); ++stage) {
      const std::vector<RecomputeMode>& listed = job.recompute.stages;
      const RecomputeMode mode = stage < listed.size() ? listed[stage] : job.recompute.mode;
      for (int unit = in_order[stage].begin; unit < in_order[stage].end; ++unit)
        modes_.push_back(runtime::planned_mode(mode));
    }
    if (modes_.size() != static_cast<size_t>(model::unit_count(job.model)))
      throw ProfileError("plan.json: its stages are not the units of the run's model");
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
      run.micro_batches = job_.micro_batches();
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
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
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
  std::vector<Recompute> modes_;                            ///< by unit
  std::vector<std::array<Timing, kParts.size()>> timings_;  ///< by rank
};

}  // namespace

RunProfile profile_from_run(const std::filesystem::path& run) {
  const RunPaths paths(run);
  std::error_code error;
  if (!std::filesystem::exists(paths.job(), error))
    throw ProfileError(fmt::format("{}: is no run's folder: there is no job.toml in it", run.string()));
  RunProfile made;
  made.job = read_job(paths.job(), {});
  Backend backend = make_backend(made.job, 0);
  const Reader reader(paths, made.job);
  std::vector<std::vector<Stage>> stages = reader.stages();
  Reader::Samples samples = reader.samples(stages.size());
  made.steps = samples.steps;
  const Builder builder(made.job, std::move(stages), std::move(samples));
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
    const planner::Profile before = planner::read_profile(read_text(paths.profile()), place);
    split.model = planner::model_costs(before, made.job.batch.micro);
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
