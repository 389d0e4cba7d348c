#pragma once

#include <cstdint>

namespace penstock {

/// [evaluation]: loss on the validation file while training.
struct EvaluationSection {
  int64_t every_steps = 0;
  int64_t batches = 8;

  bool operator==(const EvaluationSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("every_steps", every_steps).at_least(0).help("evaluate after every so many steps; 0: never");
    v.key("batches", batches).at_least(0).help("global batches of one evaluation");
  }
};

}  // namespace penstock
