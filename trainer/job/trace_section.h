#pragma once

#include <cstdint>
#include <vector>

namespace penstock {

/// [trace]: Chrome traces of single steps.
struct TraceSection {
  std::vector<int64_t> steps;
  bool on_alarm = true;

  bool operator==(const TraceSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("steps", steps).at_least(1).help("steps whose trace is written");
    v.key("on_alarm", on_alarm).help("trace the step after an alarm of the bubble budget");
  }
};

}  // namespace penstock
