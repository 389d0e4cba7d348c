#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace penstock {

enum class DecayStyle { cosine, wsd, linear, constant };
inline constexpr std::array<std::pair<std::string_view, DecayStyle>, 4> kDecayStyleNames{
    {{"cosine", DecayStyle::cosine},
     {"wsd", DecayStyle::wsd},
     {"linear", DecayStyle::linear},
     {"constant", DecayStyle::constant}}};

/// [learning_rate]: warm-up to max, then a decay to min (model/learning_rate.h has the formulas).
struct LearningRateSection {
  double max = 0.0;
  double min = 0.0;
  int64_t warmup_steps = 0;
  DecayStyle decay_style = DecayStyle::cosine;
  int64_t decay_steps = 0;

  bool operator==(const LearningRateSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("max", max).above(0).required().help("the rate after warm-up");
    v.key("min", min).at_least(0).derived("0.1 · max").help("the rate after decay; at most max");
    v.key("warmup_steps", warmup_steps).at_least(0).help("steps of linear warm-up from 0");
    v.key("decay_style", decay_style)
        .one_of(kDecayStyleNames)
        .help("wsd: constant, then a linear decay at the end (warm-up, stable, decay)");
    v.key("decay_steps", decay_steps)
        .at_least(0)
        .derived("run.steps (wsd: 10 % of it)")
        .help("the step at which min is reached, warm-up included; wsd: length of the final decay");
  }
};

}  // namespace penstock
