#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace penstock {

enum class NumericsPolicy { ignore, warn, skip, rollback, stop };
inline constexpr std::array<std::pair<std::string_view, NumericsPolicy>, 3> kOnNonfiniteNames{
    {{"stop", NumericsPolicy::stop}, {"skip", NumericsPolicy::skip}, {"rollback", NumericsPolicy::rollback}}};
inline constexpr std::array<std::pair<std::string_view, NumericsPolicy>, 5> kOnSpikeNames{
    {{"ignore", NumericsPolicy::ignore},
     {"warn", NumericsPolicy::warn},
     {"skip", NumericsPolicy::skip},
     {"rollback", NumericsPolicy::rollback},
     {"stop", NumericsPolicy::stop}}};

/// [numerics]: what happens when numbers go wrong. A step with NaN or Inf never updates a weight.
struct NumericsSection {
  NumericsPolicy on_nonfinite = NumericsPolicy::stop;
  NumericsPolicy on_spike = NumericsPolicy::warn;
  double spike_z = 6.0;
  int64_t spike_window = 128;
  int64_t max_in_a_row = 10;
  int64_t replica_check_every_steps = 0;
  int64_t recompute_check_every_steps = 0;

  bool operator==(const NumericsSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("on_nonfinite", on_nonfinite)
        .one_of(kOnNonfiniteNames)
        .help("NaN or Inf in loss or gradients; the first unit where it appeared is named");
    v.key("on_spike", on_spike).one_of(kOnSpikeNames).help("a loss far above its recent values");
    v.key("spike_z", spike_z).above(0).help("how far, in standard deviations");
    v.key("spike_window", spike_window).at_least(8).help("recent steps that are compared with");
    v.key("max_in_a_row", max_in_a_row)
        .at_least(1)
        .help("steps skipped one after another, or rollbacks to one checkpoint; one more stops the run");
    v.key("replica_check_every_steps", replica_check_every_steps)
        .at_least(0)
        .help("compare hashes of the replicas' weights; 0: never");
    v.key("recompute_check_every_steps", recompute_check_every_steps)
        .at_least(0)
        .help("compute a step twice before its update and compare the bits; 0: never");
  }
};

}  // namespace penstock
