#include "trainer/budget/arrangement.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "parallel/schedule/catalogue.h"

namespace penstock::budget {

using planner::Recompute;

namespace {

schedule::Schedule schedule_of(const Arrangement& arrangement, int ranks, int micro_batches) {
  schedule::ScheduleOptions options;
  options.ranks = ranks;
  options.micro_batches = micro_batches;
  options.chunks = arrangement.chunks;
  options.warmup_slack = arrangement.slack;
  return schedule::generate(arrangement.schedule, options);
}

}  // namespace

std::string to_string(const Arrangement& arrangement) {
  std::string text = arrangement.schedule;
  if (arrangement.chunks > 1) text += fmt::format(", {} chunks", arrangement.chunks);
  if (arrangement.slack > 0) text += fmt::format(", slack {}", arrangement.slack);
  if (arrangement.workload > 0) text += fmt::format(", micro-batch size {}", arrangement.workload);
  text += fmt::format(", units {}", fmt::join(arrangement.layout.units, " "));
  for (const Recompute mode : {Recompute::selective, Recompute::full}) {
    std::vector<size_t> stages;
    for (size_t stage = 0; stage < arrangement.layout.recompute.size(); ++stage) {
      if (arrangement.layout.recompute[stage] == mode) stages.push_back(stage);
    }
    if (stages.empty()) continue;
    if (stages.size() == arrangement.layout.recompute.size()) {
      text += fmt::format(", recompute {}", planner::to_string(mode));
    } else {
      text += fmt::format(", recompute {} in stages {}", planner::to_string(mode), fmt::join(stages, " "));
    }
  }
  return text;
}

nlohmann::json json_of(const Arrangement& arrangement) {
  nlohmann::json modes = nlohmann::json::array();
  for (const Recompute mode : arrangement.layout.recompute) modes.push_back(planner::to_string(mode));
  return {{"schedule", arrangement.schedule},  {"chunks", arrangement.chunks},
          {"warmup_slack", arrangement.slack}, {"workload", arrangement.workload},
          {"units", arrangement.layout.units}, {"recompute", modes}};
}

Arrangement arrangement_from(const nlohmann::json& told) {
  Arrangement made;
  made.schedule = told.at("schedule").get<std::string>();
  made.chunks = told.at("chunks").get<int>();
  made.slack = told.at("warmup_slack").get<int>();
  made.workload = told.at("workload").get<size_t>();
  made.layout.units = told.at("units").get<std::vector<int>>();
  for (const nlohmann::json& mode : told.at("recompute"))
    made.layout.recompute.push_back(recompute_named(mode.get<std::string>()));
  return made;
}

Recompute recompute_named(const std::string& name) {
  for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
    if (name == planner::to_string(mode)) return mode;
  }
  throw schedule::ScheduleError(fmt::format("recompute \"{}\": none, selective or full was expected", name));
}

Arrangement arrangement_of(const planner::Candidate& candidate) {
  return {candidate.schedule, candidate.chunks, candidate.slack, candidate.workload, candidate.layout};
}

SimulatedArrangement::SimulatedArrangement(Arrangement arrangement, const planner::Machine& machine,
                                           int micro_batches, bool tied_embeddings)
    : arrangement_(std::move(arrangement)),
      machine_(machine),
      forecast_(schedule_of(arrangement_, machine.ranks, micro_batches), machine.replicas > 1,
                tied_embeddings) {
  for (size_t stage = 0; stage < arrangement_.layout.units.size(); ++stage) {
    const int rank = forecast_.schedule().rank_of_stage[stage];
    rank_of_unit_.insert(rank_of_unit_.end(), static_cast<size_t>(arrangement_.layout.units[stage]), rank);
  }
}

double SimulatedArrangement::step(const planner::UnitSums& sums, const std::vector<double>& pace) {
  machine_.pace = pace;
  const schedule::Costs costs =
      planner::layout_costs(sums, machine_, forecast_.schedule(), arrangement_.layout);
  if (!forecast_.settled()) forecast_.settle(costs);
  return forecast_.time(costs).step;
}

std::vector<std::array<double, 3>> SimulatedArrangement::work(const planner::UnitSums& sums) const {
  const schedule::Schedule& order = forecast_.schedule();
  std::vector<std::array<double, 3>> ranks(static_cast<size_t>(order.ranks), {0, 0, 0});
  int begin = 0;
  for (size_t stage = 0; stage < arrangement_.layout.units.size(); ++stage) {
    const int end = begin + arrangement_.layout.units[stage];
    const schedule::StageCosts times = sums.times(begin, end, arrangement_.layout.recompute[stage]);
    std::array<double, 3>& rank = ranks[static_cast<size_t>(order.rank_of_stage[stage])];
    rank[0] += order.micro_batches * times.forward;
    rank[1] += order.micro_batches * times.backward_input;
    rank[2] += order.micro_batches * times.backward_weight;
    begin = end;
  }
  return ranks;
}

}  // namespace penstock::budget
