#pragma once

#include <cstdint>

namespace penstock {

/// [loss_scaling]: the factor that gradients carry on their way where something of [precision] is fp16, which
/// holds nothing below 6e-8. A step whose gradients overflow is skipped and lowers it, good steps in a row
/// raise it. Scales are powers of two, so that they change no bit of what neither overflows nor vanishes.
struct LossScalingSection {
  double initial = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 1000;
  double minimum = 1;
  double maximum = 16777216;

  bool operator==(const LossScalingSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("initial", initial).above(0).help("the first scale; where something is fp16. Powers of two");
    v.key("growth_factor", growth_factor).above(1).help("after growth_interval good steps in a row");
    v.key("backoff_factor", backoff_factor).above(0).below(1).help("after a step that overflowed");
    v.key("growth_interval", growth_interval).at_least(1).help("good steps in a row before the scale grows");
    v.key("minimum", minimum)
        .above(0)
        .help("a step that overflows at this scale is a case for numerics.on_nonfinite");
    v.key("maximum", maximum).above(0).help("growth ends here");
  }
};

}  // namespace penstock
