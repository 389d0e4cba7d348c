// What each action would gain with the costs measured now, and whether that is sure enough to try.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "trainer/budget/controller.h"

namespace penstock::budget {

using nlohmann::json;
using planner::Workload;

namespace {

std::vector<Workload> scaled(std::vector<Workload> workloads, const std::array<double, 3>& factors) {
  for (Workload& workload : workloads) {
    for (planner::UnitCosts& unit : workload.model.units) {
      for (planner::ModeCosts& mode : unit.modes) {
        mode.forward *= factors[0];
        mode.backward_input *= factors[1];
        mode.recompute *= factors[1];
        mode.backward_weight *= factors[2];
      }
    }
  }
  return workloads;
}

/// Paces of each step of a segment, and their means.
struct SegmentPaces {
  SegmentPaces(const std::vector<CostHistory::Step>& segment, const std::vector<double>& work)
      : mean(work.size(), 0) {
    for (const CostHistory::Step& step : segment) {
      steps.push_back(paces(step.measured, work));
      for (size_t rank = 0; rank < work.size(); ++rank)
        mean[rank] += steps.back()[rank] / static_cast<double>(segment.size());
    }
  }

  std::vector<std::vector<double>> steps;
  std::vector<double> mean;
};

}  // namespace

std::vector<Controller::Weighed> Controller::weigh(const planner::Machine& machine,
                                                   const std::vector<Workload>& workloads,
                                                   std::string& refusals) {
  std::vector<Weighed> all;
  const Situation situation{running(), options_.first,     machine,
                            workloads, options_.recompute, options_.search};
  const planner::UnitSums sums(workloads[running().workload].model);
  const SegmentPaces measured(history_.segment(), totals(running_->work(sums)));
  std::vector<double> now;
  for (const std::vector<double>& pace : measured.steps) now.push_back(running_->step(sums, pace));
  for (const auto& action : actions_) {
    Proposals proposals = propose(*action, situation);
    if (!proposals.refusal.empty())
      refusals +=
          fmt::format("{}{}: {}", refusals.empty() ? "" : "; ", name_of(action->kind()), proposals.refusal);
    for (planner::Candidate& candidate : proposals.candidates) {
      const Arrangement arrangement = arrangement_of(candidate);
      if (std::any_of(all.begin(), all.end(),
                      [&](const Weighed& each) { return arrangement_of(each.candidate) == arrangement; }))
        continue;
      if (barred(arrangement)) continue;
      const planner::UnitSums candidate_sums(workloads[arrangement.workload].model);
      const auto other = simulated(arrangement);
      std::vector<double> gains;
      for (size_t t = 0; t < now.size(); ++t) {
        if (history_.segment()[t].judged)
          gains.push_back(1 - other->step(candidate_sums, measured.steps[t]) / now[t]);
      }
      all.push_back({action->kind(), std::move(candidate),
                     estimate_mean(std::move(gains), history_.noise().correlation),
                     required_gain(arrangement)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Weighed& a, const Weighed& b) { return a.gain.mean > b.gain.mean; });
  return all;
}

std::vector<Workload> Controller::workloads_now() const {
  if (history_.segment().empty()) return options_.workloads;
  return scaled(options_.workloads, history_.action_factors());
}

planner::Machine Controller::machine_now(const std::vector<Workload>& workloads) const {
  planner::Machine machine = options_.machine;
  if (history_.segment().empty()) return machine;
  const planner::UnitSums sums(workloads[running().workload].model);
  machine.pace = SegmentPaces(history_.segment(), totals(running_->work(sums))).mean;
  return machine;
}

void Controller::consider(int64_t step, Verdict& verdict) {
  const std::vector<Workload> workloads = workloads_now();
  const planner::Machine machine = machine_now(workloads);
  std::string refusals;
  std::vector<Weighed> all = weigh(machine, workloads, refusals);
  const auto best = std::find_if(all.begin(), all.end(), [this](const Weighed& each) {
    return each.gain.lower(options_.apply_confidence) > each.required;
  });
  if (best != all.end()) best->taken = true;
  json candidates = json::array();
  for (const Weighed& each : all) {
    candidates.push_back({{"action", name_of(each.action)},
                          {"arrangement", to_string(arrangement_of(each.candidate))},
                          {"predicted_gain", each.gain.mean},
                          {"standard_error", each.gain.error},
                          {"required_gain", each.required},
                          {"predicted_step_ms", 1e3 * each.candidate.prediction.step},
                          {"peak_memory_bytes", each.candidate.prediction.peak_memory},
                          {"taken", each.taken}});
  }
  const SeriesNoise& noise = history_.noise();
  json details{{"arrangement", to_string(running())},
               {"costs_of_steps", history_.segment().size()},
               {"pace", machine.pace},
               {"pace_standard_error",
                noise.sigma * std::sqrt(variance_of_mean(noise.correlation, history_.segment().size()))},
               {"correlation", noise.correlation},
               {"candidates", candidates}};
  if (!refusals.empty()) details["refused"] = refusals;
  std::string text;
  if (best == all.end()) {
    fruitless_segment_ = history_.number();
    fruitless_windows_ = history_.windows();
    fruitless_steps_ = history_.segment().size();
    fruitless_levels_ = history_.levels();
    text = all.empty()
               ? "budget: no allowed action has another arrangement that fits in memory and has not failed "
                 "before\n"
               : fmt::format("budget: nothing is sure to gain {:.1f} %; best is {}: {:.1f} % +- {:.1f} %\n",
                             100 * all.front().required, name_of(all.front().action),
                             100 * all.front().gain.mean, 100 * all.front().gain.error);
  } else {
    text = fmt::format("budget: {} is tried: {}; predicted gain {:.1f} % +- {:.1f} %\n",
                       name_of(best->action), to_string(arrangement_of(best->candidate)),
                       100 * best->gain.mean, 100 * best->gain.error);
  }
  verdict.events.push_back({"budget_decision", step, std::move(details), std::move(text)});
  if (best != all.end()) start_trial(*best, workloads, step, verdict);
}

}  // namespace penstock::budget
