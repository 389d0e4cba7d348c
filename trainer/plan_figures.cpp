#include "trainer/plan_figures.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace penstock {

using planner::Plan;
using schedule::Idle;
using schedule::RankMeasures;

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
  if (seconds >= 1) return fmt::format("{:.4g} s", seconds);
  const double ms = 1e3 * seconds;
  return ms >= 0.1 || ms == 0 ? fmt::format("{:.4g} ms", ms) : fmt::format("{:.3g} us", 1e3 * ms);
}

std::string bytes_text(int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib >= 1024 ? fmt::format("{:.2f} GiB", mib / 1024) : fmt::format("{:.1f} MiB", mib);
}

}  // namespace penstock
