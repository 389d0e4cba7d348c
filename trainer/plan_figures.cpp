#include "trainer/plan_figures.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace penstock {
namespace {

using planner::Plan;
using planner::RankMemory;
using schedule::Idle;
using schedule::RankMeasures;

constexpr double worth_saying = 0.01;  // of the step

double share(double seconds, const Plan& plan) {
  return 100 * seconds / plan.chosen.prediction.step;
}

std::string slowest_text(const Plan& plan) {
  const planner::Prediction& prediction = plan.chosen.prediction;
  return fmt::format(
      "the slowest stage: rank {} (stage {}) computes {:.1f} % longer than the mean rank, {} "
      "({:.1f} % of the step)",
      prediction.slowest_rank, figures_of(plan).slowest_stage, 100 * prediction.imbalance,
      time_text(plan.parts.imbalance), share(plan.parts.imbalance, plan));
}

std::string memory_text(const Plan& plan, const planner::Machine& machine) {
  const planner::Prediction& prediction = plan.chosen.prediction;
  int tightest = 0;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t r = 0; r < prediction.memory.size(); ++r) {
    const int64_t left = machine.limit_of(static_cast<int>(r)) - prediction.memory[r].total();
    if (left < least) tightest = static_cast<int>(r);
    least = std::min(least, left);
  }
  const auto r = static_cast<size_t>(tightest);
  const std::string numbers = fmt::format("{} of {}", bytes_text(prediction.memory[r].total()),
                                          bytes_text(machine.limit_of(tightest)));
  if (!prediction.fits)
    return fmt::format("memory: rank {} would need {}; it does not fit", tightest, numbers);
  return fmt::format("memory of rank {} ({}): recomputation costs {} ({:.1f} % of the step)", tightest,
                     numbers, time_text(plan.parts.recompute), share(plan.parts.recompute, plan));
}

}  // namespace

PlanFigures figures_of(const Plan& plan) {
  const planner::Prediction& prediction = plan.chosen.prediction;
  PlanFigures figures;
  double first_end = std::numeric_limits<double>::infinity();
  double last_end = 0;
  double last_start = 0;
  double first_start = std::numeric_limits<double>::infinity();
  const auto ranks = static_cast<double>(prediction.measures.ranks.size());
  for (const RankMeasures& rank : prediction.measures.ranks) {
    first_start = std::min(first_start, rank.first_start);
    last_start = std::max(last_start, rank.first_start);
    first_end = std::min(first_end, rank.last_end);
    last_end = std::max(last_end, rank.last_end);
    for (double Idle::*cause :
         {&Idle::fill, &Idle::wait, &Idle::transfer, &Idle::buffer, &Idle::drain, &Idle::reduction})
      figures.idle.*cause += std::max(0.0, rank.causes.*cause) / ranks;
  }
  figures.fill = last_start - first_start;
  figures.drain = last_end - first_end;
  double longest = -1;
  for (const planner::StagePlan& stage : plan.stages) {
    const double time = stage.times.forward + stage.times.backward_input + stage.times.backward_weight;
    if (stage.rank != prediction.slowest_rank || time <= longest) continue;
    longest = time;
    figures.slowest_stage = stage.stage;
  }
  return figures;
}

std::string units_of(const planner::ModelCosts& model, const planner::StagePlan& stage) {
  const std::string& first = model.units[static_cast<size_t>(stage.first_unit)].name;
  if (stage.units == 1) return first;
  return first + " to " + model.units[static_cast<size_t>(stage.first_unit + stage.units - 1)].name;
}

std::vector<std::string> limits_of(const Plan& plan, const planner::Machine& machine) {
  const planner::StepParts& parts = plan.parts;
  std::vector<std::pair<double, std::string>> all;
  all.emplace_back(parts.imbalance, slowest_text(plan));
  if (!machine.memory_limit.empty())
    all.emplace_back(plan.chosen.prediction.fits ? parts.recompute : std::numeric_limits<double>::infinity(),
                     memory_text(plan, machine));
  all.emplace_back(parts.schedule,
                   fmt::format("fill and drain: the order of the actions leaves the slowest rank idle for {} "
                               "({:.1f} % of the step)",
                               time_text(parts.schedule), share(parts.schedule, plan)));
  all.emplace_back(parts.transfer, fmt::format("links: messages delay the step by {} ({:.1f} % of it)",
                                               time_text(parts.transfer), share(parts.transfer, plan)));
  all.emplace_back(parts.tail,
                   fmt::format("the step's tail: reductions and the optimizer take {} ({:.1f} % of it)",
                               time_text(parts.tail), share(parts.tail, plan)));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> said;
  for (auto& [seconds, text] : all) {
    if (seconds > worth_saying * plan.chosen.prediction.step) said.push_back(std::move(text));
  }
  return said;
}

std::string without_saving(const Plan& plan) {
  std::string stages;
  for (const planner::StagePlan& stage : plan.stages) {
    if (stage.full_saves <= 0) stages += fmt::format("{}{}", stages.empty() ? "" : ", ", stage.stage);
  }
  if (stages.empty()) return "";
  return fmt::format(
      "recomputation saves nothing in stage{} {}: what their pending weight gradients hold, or "
      "their units keep in any case, is as large\n",
      stages.find(',') == std::string::npos ? "" : "s", stages);
}

std::string time_text(double seconds) {
  if (seconds >= 10) return fmt::format("{:.2f} s", seconds);
  const double ms = 1e3 * seconds;
  return ms >= 0.1 || ms == 0 ? fmt::format("{:.4g} ms", ms) : fmt::format("{:.3g} us", 1e3 * ms);
}

std::string bytes_text(int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib >= 1024 ? fmt::format("{:.2f} GiB", mib / 1024) : fmt::format("{:.1f} MiB", mib);
}

}  // namespace penstock
