#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/planner/unit_costs.h"
#include "parallel/schedule/costs.h"

namespace penstock::planner {

/// Bytes of a run of units for one micro-batch.
struct RunBytes {
  int64_t forward = 0;  ///< of a forward slot, side band included
  int64_t kept = 0;
  int64_t weight = 0;
  int64_t transient = 0;  ///< the most of its units
};

/// Sums over runs of units [begin, end), from prefix sums.
class UnitSums {
 public:
  explicit UnitSums(const ModelCosts& model);

  int units() const { return static_cast<int>(model_.units.size()); }
  const ModelCosts& model() const { return model_; }

  /// Seconds; R counts in I, as it runs there.
  schedule::StageCosts times(int begin, int end, Recompute mode) const;
  double recompute(int begin, int end, Recompute mode) const;
  double optimizer_step(int begin, int end) const { return sum(optimizer_step_, begin, end); }
  RunBytes bytes(int begin, int end, Recompute mode) const;
  int64_t resident_bytes(int begin, int end) const { return sum(resident_, begin, end); }
  int64_t gradient_bytes(int begin, int end) const { return sum(gradient_, begin, end); }
  int64_t workspace_bytes(int begin, int end) const;

 private:
  template <class T>
  static T sum(const std::vector<T>& prefix, int begin, int end) {
    return prefix[static_cast<size_t>(end)] - prefix[static_cast<size_t>(begin)];
  }

  struct Mode {
    std::vector<double> forward, recompute, backward_input, backward_weight;
    std::vector<int64_t> forward_bytes, kept_bytes, weight_bytes;
  };

  ModelCosts model_;
  std::array<Mode, recompute_modes> modes_;
  std::vector<double> optimizer_step_;
  std::vector<int64_t> resident_;
  std::vector<int64_t> gradient_;
};

}  // namespace penstock::planner
