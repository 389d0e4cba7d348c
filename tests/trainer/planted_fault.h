// Faults that a test plants into whole runs.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainer/training.h"

namespace penstock {

/// Before some of a run's steps a parameter becomes another one, on every rank that holds it.
class PlantedFault {
 public:
  using Change = std::function<void(const model::Parameter&)>;
  enum class Lasts { until_the_step_is_computed, for_good };

  /// In steps (completed before them) `steps`, each `times` times, as a run may come back to it.
  PlantedFault(std::string parameter, std::set<int64_t> steps, int times, Lasts lasts, Change change)
      : parameter_(std::move(parameter)),
        steps_(std::move(steps)),
        times_(times),
        lasts_(lasts),
        change_(std::move(change)) {}

  void operator()(const StepMoment& moment) {
    const std::lock_guard lock(mutex_);
    for (const model::Parameter& parameter : moment.engine.rank().parameters().parameters()) {
      if (parameter.shared || parameter.spec.name != parameter_) continue;
      auto* const values = parameter.master.as<float>();
      std::vector<float>& before = before_[{moment.rank, parameter.copy}];
      if (!moment.computed) {
        if (steps_.count(moment.step) == 0 || planted_[{moment.rank, moment.step}]++ >= times_) continue;
        if (lasts_ == Lasts::until_the_step_is_computed)
          before.assign(values, values + parameter.master.elements());
        change_(parameter);
      } else if (!before.empty()) {
        std::copy(before.begin(), before.end(), values);
        before.clear();
      }
    }
  }

  static Change not_a_number() {
    return [](const model::Parameter& parameter) {
      parameter.master.as<float>()[1] = std::numeric_limits<float>::quiet_NaN();
    };
  }
  static Change times(float factor) {
    return [factor](const model::Parameter& parameter) {
      for (int64_t i = 0; i < parameter.master.elements(); ++i) parameter.master.as<float>()[i] *= factor;
    };
  }

 private:
  std::string parameter_;
  std::set<int64_t> steps_;
  int times_;
  Lasts lasts_;
  Change change_;
  std::mutex mutex_;
  std::map<std::pair<int, int64_t>, int> planted_;
  std::map<std::pair<int, int>, std::vector<float>> before_;
};

}  // namespace penstock
