// From what was measured to what a plan needs at one micro-batch size.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "parallel/planner/profile.h"

namespace penstock::planner {

namespace {

/// A micro-batch size between (or beyond) two measured ones: value = low + weight · (high − low).
struct Place {
  size_t low = 0;
  size_t high = 0;
  double weight = 0;
  double scale = 1;  ///< where there is one size: through the origin
};

template <class Sized>
Place locate(const std::vector<Sized>& sizes, int64_t micro_batch, const std::string& what) {
  const int64_t smallest = sizes.front().micro_batch;
  const int64_t largest = sizes.back().micro_batch;
  if (micro_batch > 2 * largest || 2 * micro_batch < smallest || micro_batch < 1) {
    throw ProfileError(
        fmt::format("{}: measured for micro-batches of {} to {} sequences; {} is beyond half and double of "
                    "these: measure it",
                    what, smallest, largest, micro_batch));
  }
  if (sizes.size() == 1) return {0, 0, 0, static_cast<double>(micro_batch) / static_cast<double>(largest)};
  size_t high = 1;
  while (high + 1 < sizes.size() && sizes[high].micro_batch < micro_batch) ++high;
  const auto at = [&](size_t i) { return static_cast<double>(sizes[i].micro_batch); };
  return {high - 1, high, (static_cast<double>(micro_batch) - at(high - 1)) / (at(high) - at(high - 1)), 1};
}

double seconds(const Place& place, double low, double high) {
  return std::max(0.0, (low + place.weight * (high - low)) * place.scale);
}

// Of a size that was measured: exactly; in between, not less.
int64_t bytes(const Place& place, int64_t low, int64_t high) {
  const double value = static_cast<double>(low) + place.weight * static_cast<double>(high - low);
  return std::max<int64_t>(0, std::llround(std::ceil(value * place.scale - 1e-6)));
}

const MeasuredMode* find_mode(const MeasuredSize& size, Recompute mode) {
  for (const MeasuredMode& each : size.modes) {
    if (each.mode == mode) return &each;
  }
  return nullptr;
}

ModeCosts mode_costs(const Place& place, const MeasuredMode& low, const MeasuredMode& high) {
  const auto time = [&](Timing MeasuredMode::*member) {
    return seconds(place, (low.*member).median, (high.*member).median);
  };
  const auto size = [&](int64_t MeasuredMode::*member) { return bytes(place, low.*member, high.*member); };
  ModeCosts costs;
  costs.forward = time(&MeasuredMode::forward);
  costs.recompute = time(&MeasuredMode::recompute);
  costs.backward_input = time(&MeasuredMode::backward_input);
  costs.backward_weight = time(&MeasuredMode::backward_weight);
  costs.forward_bytes = size(&MeasuredMode::forward_bytes);
  costs.kept_bytes = size(&MeasuredMode::kept_bytes);
  costs.weight_bytes = size(&MeasuredMode::weight_bytes);
  costs.transient_bytes = size(&MeasuredMode::transient_bytes);
  return costs;
}

/// A unit's costs without its name, and which modes are known.
struct Kind {
  UnitCosts costs;
  std::array<bool, recompute_modes> available{};
};

Kind kind_costs(const MeasuredUnit& unit, int64_t micro_batch) {
  const Place place = locate(unit.sizes, micro_batch, fmt::format("unit \"{}\"", unit.kind));
  const MeasuredSize& low = unit.sizes[place.low];
  const MeasuredSize& high = unit.sizes[place.high];
  const bool layered = unit.kind == "attention" || unit.kind == "mlp";
  Kind kind;
  UnitCosts& costs = kind.costs;
  costs.parameters = static_cast<double>(unit.parameters);
  costs.flops = unit.flops * static_cast<double>(micro_batch);
  costs.layers = layered ? 1 : 0;
  costs.resident_bytes = unit.resident_bytes;
  costs.gradient_bytes = unit.gradient_bytes;
  costs.workspace_bytes = bytes(place, low.workspace_bytes, high.workspace_bytes);
  costs.side_band_bytes = bytes(place, low.side_band_bytes, high.side_band_bytes);
  costs.optimizer_step = unit.optimizer_step.median;
  for (size_t m = 0; m < recompute_modes; ++m) {
    const auto mode = static_cast<Recompute>(m);
    const MeasuredMode* at_low = find_mode(low, mode);
    const MeasuredMode* at_high = find_mode(high, mode);
    // Embedding and head rebuild nothing: any mode is their only one.
    if (!layered && (at_low == nullptr || at_high == nullptr)) {
      at_low = &low.modes.front();
      at_high = &high.modes.front();
    }
    if (at_low == nullptr || at_high == nullptr) continue;
    kind.available[m] = true;
    costs.modes[m] = mode_costs(place, *at_low, *at_high);
  }
  return kind;
}

}  // namespace

ModelCosts model_costs(const Profile& profile, int64_t micro_batch) {
  ModelCosts model;
  const Place place = locate(profile.shapes, micro_batch, "profile");
  const MeasuredShape& low = profile.shapes[place.low];
  const MeasuredShape& high = profile.shapes[place.high];
  model.micro_batch = micro_batch;
  model.tokens = micro_batch * profile.model_integer("sequence_length");
  model.boundary_bytes = bytes(place, low.boundary_bytes, high.boundary_bytes);
  model.rank_bytes = bytes(place, low.rank_bytes, high.rank_bytes);
  model.tied_embeddings = profile.tied_embeddings;
  model.tied_exchange_bytes = profile.tied_exchange_bytes;
  model.tied_shared_bytes = profile.tied_shared_bytes;
  model.source = fmt::format("measured on {}", profile.device);
  std::map<std::string, Kind> kinds;  // by kind, and by the names of exceptions
  for (const MeasuredUnit& unit : profile.units) {
    const Kind kind = kind_costs(unit, micro_batch);
    if (unit.only.empty()) kinds[unit.kind] = kind;
    for (const std::string& name : unit.only) kinds[name] = kind;
  }
  const auto add = [&](const std::string& kind, const std::string& name) {
    const auto named = kinds.find(name);
    const Kind& found = named != kinds.end() ? named->second : kinds.at(kind);
    model.units.push_back(found.costs);
    model.units.back().name = name;
    for (size_t m = 0; m < recompute_modes; ++m)
      model.available[m] = model.available[m] && found.available[m];
  };
  add("embedding", "embedding");
  const int64_t layers = profile.model_integer("layers");
  for (int64_t layer = 0; layer < layers; ++layer) {
    add("attention", fmt::format("attention_{}", layer));
    add("mlp", fmt::format("mlp_{}", layer));
  }
  add("head", "head");
  return model;
}

LinkCosts link_costs(const Profile& profile, int ranks) {
  LinkCosts costs;
  const auto edge_of = [](const MeasuredLink& link) {
    Edge edge;
    edge.latency = link.latency;
    if (link.bandwidth) edge.bandwidth = *link.bandwidth;
    return edge;
  };
  if (profile.reduction) costs.reduction = edge_of(*profile.reduction);
  costs.traffic_slowdown = profile.traffic_slowdown;
  if (profile.links.empty()) return costs;
  Edge other;
  bool any = false;
  for (const MeasuredLink& link : profile.links) {
    const Edge edge = edge_of(link);
    if (link.from < 0) {
      other = edge;
      any = true;
    } else if (!any) {
      other = {std::max(other.latency, edge.latency), std::min(other.bandwidth, edge.bandwidth)};
    }
  }
  costs.edges = {other};
  if (std::all_of(profile.links.begin(), profile.links.end(),
                  [](const MeasuredLink& link) { return link.from < 0; }))
    return costs;
  costs.edges.assign(static_cast<size_t>(ranks) * static_cast<size_t>(ranks), other);
  for (const MeasuredLink& link : profile.links) {
    if (link.from < 0 || link.from >= ranks || link.to >= ranks) continue;
    costs.edges[static_cast<size_t>(link.from) * static_cast<size_t>(ranks) + static_cast<size_t>(link.to)] =
        edge_of(link);
  }
  return costs;
}

std::vector<double> rank_paces(const Profile& profile, int ranks) {
  if (profile.pace.empty()) return {1};
  std::vector<double> paces = profile.pace;
  paces.resize(static_cast<size_t>(ranks), 1);
  return paces;
}

}  // namespace penstock::planner
