#include "parallel/planner/unit_sums.h"

#include <algorithm>

namespace penstock::planner {

namespace {

// (units + 1): sums of what `of` says of the units before.
template <class Of>
auto prefix(const std::vector<UnitCosts>& units, Of of) {
  std::vector<decltype(of(units[0]))> sums(units.size() + 1, 0);
  for (size_t i = 0; i < units.size(); ++i) sums[i + 1] = sums[i] + of(units[i]);
  return sums;
}

}  // namespace

UnitSums::UnitSums(const ModelCosts& model) : model_(model) {
  const auto& units = model_.units;
  for (size_t m = 0; m < recompute_modes; ++m) {
    const auto of = [&](auto member) {
      return prefix(units, [m, member](const UnitCosts& unit) { return unit.modes[m].*member; });
    };
    modes_[m] = {of(&ModeCosts::forward),        of(&ModeCosts::recompute),
                 of(&ModeCosts::backward_input), of(&ModeCosts::backward_weight),
                 of(&ModeCosts::forward_bytes),  of(&ModeCosts::kept_bytes),
                 of(&ModeCosts::weight_bytes)};
  }
  optimizer_step_ = prefix(units, [](const UnitCosts& unit) { return unit.optimizer_step; });
  resident_ = prefix(units, [](const UnitCosts& unit) { return unit.resident_bytes; });
  gradient_ = prefix(units, [](const UnitCosts& unit) { return unit.gradient_bytes; });
}

schedule::StageCosts UnitSums::times(int begin, int end, Recompute mode) const {
  const Mode& of = modes_[static_cast<size_t>(mode)];
  // Differences of sums may fall below 0 by a rounding.
  const auto seconds = [&](const std::vector<double>& sums) { return std::max(0.0, sum(sums, begin, end)); };
  return {seconds(of.forward), seconds(of.recompute) + seconds(of.backward_input),
          seconds(of.backward_weight)};
}

double UnitSums::recompute(int begin, int end, Recompute mode) const {
  return sum(modes_[static_cast<size_t>(mode)].recompute, begin, end);
}

RunBytes UnitSums::bytes(int begin, int end, Recompute mode) const {
  const Mode& of = modes_[static_cast<size_t>(mode)];
  RunBytes bytes{sum(of.forward_bytes, begin, end), sum(of.kept_bytes, begin, end),
                 sum(of.weight_bytes, begin, end), 0};
  int64_t side_band = 0;
  for (int i = begin; i < end; ++i) {
    const UnitCosts& unit = model_.units[static_cast<size_t>(i)];
    bytes.transient = std::max(bytes.transient, unit.in(mode).transient_bytes);
    side_band = std::max(side_band, unit.side_band_bytes);
  }
  bytes.forward += side_band;
  return bytes;
}

int64_t UnitSums::workspace_bytes(int begin, int end) const {
  int64_t most = 0;
  for (int i = begin; i < end; ++i)
    most = std::max(most, model_.units[static_cast<size_t>(i)].workspace_bytes);
  return most;
}

}  // namespace penstock::planner
