#include "parallel/planner/refined_costs.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace penstock::planner {

void MeasuredRun::add(const MeasuredRun& other) {
  micro_batches += other.micro_batches;
  forward += other.forward;
  backward_input += other.backward_input;
  backward_weight += other.backward_weight;
  if (recompute && other.recompute) {
    *recompute += *other.recompute;
  } else if (recompute || other.recompute) {  // known of one alone
    backward_input += recompute.value_or(0) + other.recompute.value_or(0);
    recompute.reset();
  }
}

RefinedCosts::RefinedCosts(ModelCosts costs, double weight)
    : costs_(std::move(costs)), weight_(weight), measured_(costs_.units.size(), 0) {
  if (!(weight > 0 && weight <= 1))
    throw std::invalid_argument(fmt::format("a weight of {}: it must be above 0, and 1 at most", weight));
}

void RefinedCosts::check(const MeasuredRun& run) const {
  for (const MeasuredRun::Member& member : run.members) {
    if (member.unit < 0 || static_cast<size_t>(member.unit) >= costs_.units.size()) {
      throw std::invalid_argument(
          fmt::format("unit {} was measured, of a model of {} units", member.unit, costs_.units.size()));
    }
  }
  for (const double seconds :
       {run.forward, run.backward_input, run.backward_weight, run.recompute.value_or(0)}) {
    if (!(seconds >= 0 && std::isfinite(seconds)))
      throw std::invalid_argument(fmt::format("{} seconds were measured", seconds));
  }
  if (run.micro_batches < 1)
    throw std::invalid_argument(fmt::format("{} micro-batches were measured", run.micro_batches));
}

double RefinedCosts::factor_of(const MeasuredRun& run, double measured,
                               const std::vector<double ModeCosts::*>& actions, int64_t before) const {
  double expected = 0;
  for (const MeasuredRun::Member& member : run.members) {
    const ModeCosts& costs = costs_.units[static_cast<size_t>(member.unit)].in(member.mode);
    for (const auto action : actions) expected += costs.*action;
  }
  const double seconds = measured / static_cast<double>(run.micro_batches);
  if (!(expected > 0) || seconds == 0 || !std::isfinite(seconds / expected)) return 1;
  const double ratio = seconds / expected;
  if (before == 0) return ratio;
  const double share = std::max(weight_, 1 / static_cast<double>(before + 1));
  return 1 + share * (std::clamp(ratio, 0.5, 2.0) - 1);
}

void RefinedCosts::scale(const MeasuredRun& run, double factor, double ModeCosts::*action,
                         bool only_own_mode) {
  for (const MeasuredRun::Member& member : run.members) {
    UnitCosts& unit = costs_.units[static_cast<size_t>(member.unit)];
    for (size_t mode = 0; mode < recompute_modes; ++mode) {
      if (!only_own_mode || mode == static_cast<size_t>(member.mode)) unit.modes[mode].*action *= factor;
    }
  }
}

void RefinedCosts::fold_run(const MeasuredRun& run) {
  // A run that a unit new to it has joined is an old one: the others' factors stay.
  int64_t before = 0;
  for (const MeasuredRun::Member& member : run.members)
    before = std::max(before, measured_[static_cast<size_t>(member.unit)]);
  const double forward = factor_of(run, run.forward, {&ModeCosts::forward}, before);
  const double weight = factor_of(run, run.backward_weight, {&ModeCosts::backward_weight}, before);
  double input = 1;
  double recompute = 1;
  if (run.recompute) {
    input = factor_of(run, run.backward_input, {&ModeCosts::backward_input}, before);
    recompute = factor_of(run, *run.recompute, {&ModeCosts::recompute}, before);
  } else {
    input = factor_of(run, run.backward_input, {&ModeCosts::backward_input, &ModeCosts::recompute}, before);
    recompute = input;
  }
  scale(run, recompute / forward, &ModeCosts::recompute, true);
  scale(run, forward, &ModeCosts::recompute, false);
  scale(run, forward, &ModeCosts::forward, false);
  scale(run, input, &ModeCosts::backward_input, false);
  scale(run, weight, &ModeCosts::backward_weight, false);
  for (const MeasuredRun::Member& member : run.members)
    measured_[static_cast<size_t>(member.unit)] = before + 1;
}

void RefinedCosts::fold(const std::vector<MeasuredRun>& step) {
  for (const MeasuredRun& run : step) check(run);
  for (const MeasuredRun& run : step) fold_run(run);
  ++steps_;
}

}  // namespace penstock::planner
