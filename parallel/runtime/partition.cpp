#include "parallel/runtime/partition.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/parameter.h"
#include "model/unit_id.h"

namespace penstock::runtime {

namespace {

double parameters_of(const ModelSection& model, model::UnitId unit) {
  double count = 0;
  for (const model::ParameterSpec& spec : model::unit_parameters(model, unit)) {
    if (!spec.tied) count += static_cast<double>(spec.shape.elements());
  }
  return count;
}

double flops_of(const ModelSection& model, model::UnitId unit) {
  if (unit.kind == model::UnitKind::embedding) return 0;
  double elements = 0;
  for (const model::ParameterSpec& spec : model::unit_parameters(model, unit)) {
    if (spec.shape.rank == 2) elements += static_cast<double>(spec.shape.elements());
  }
  double flops = 2 * elements;
  if (unit.kind == model::UnitKind::attention) {
    // On average (T + 1) / 2 keys are visible.
    flops += 2 * static_cast<double>(model.heads * model.head_dim) *
             static_cast<double>(model.sequence_length + 1);
  }
  return flops;
}

}  // namespace

std::vector<double> unit_costs(const ModelSection& model, PartitionMethod method) {
  std::vector<double> costs;
  for (int index = 0; index < model::unit_count(model); ++index) {
    const model::UnitId unit = model::unit_at(model, index);
    switch (method) {
      case PartitionMethod::layers:
      case PartitionMethod::units:
        costs.push_back(unit.kind == model::UnitKind::attention || unit.kind == model::UnitKind::mlp ? 1 : 0);
        break;
      case PartitionMethod::parameters:
        costs.push_back(parameters_of(model, unit));
        break;
      case PartitionMethod::measured:
      case PartitionMethod::flops:
        costs.push_back(flops_of(model, unit));
        break;
    }
  }
  return costs;
}

std::vector<double> unit_seconds(const planner::ModelCosts& costs, planner::Recompute mode) {
  std::vector<double> seconds;
  for (const planner::UnitCosts& unit : costs.units) {
    const planner::ModeCosts& in = unit.in(mode);
    seconds.push_back(in.forward + in.recompute + in.backward_input + in.backward_weight);
  }
  return seconds;
}

std::vector<int> partition(const ModelSection& model, PartitionMethod method,
                           const std::vector<int64_t>& listed, int stages) {
  if (method != PartitionMethod::units) return planner::cut_evenly(unit_costs(model, method), stages);
  const int units = model::unit_count(model);
  const auto sum = std::accumulate(listed.begin(), listed.end(), int64_t{0});
  if (listed.size() != static_cast<size_t>(stages) || sum != units ||
      std::any_of(listed.begin(), listed.end(), [](int64_t count) { return count < 1; })) {
    throw planner::PartitionError(fmt::format(
        "parallel.partition = [{}]: {} stages of {} units in all; the model has {} units (embedding, {} × "
        "(attention, mlp), head), and pipeline × chunks asks for {} stages of at least one unit each",
        fmt::join(listed, ", "), listed.size(), sum, units, model.layers, stages));
  }
  return {listed.begin(), listed.end()};
}

}  // namespace penstock::runtime
