#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/budget/observation.h"

namespace penstock::budget {

/// Where the time of some steps went, and who was behind it. Mean seconds of a step.
struct Attribution {
  double step = 0;
  accounting::PartSeconds parts;           ///< mean over the ranks
  std::vector<accounting::Culprit> roots;  ///< of all ranks' waits together, the largest first
  double waits = 0;                        ///< all of them
  int slowest_rank = 0;                    ///< in most of the steps, with its slowest stage
  int slowest_stage = 0;
};

/// Some steps in a row.
struct Window {
  int64_t first_step = 0;
  int64_t last_step = 0;
  double step = 0;             ///< mean seconds, without pauses
  double step_p95 = 0;         ///< nearest rank
  double bubble_ratio = 0;     ///< of all its time
  double stage_imbalance = 0;  ///< mean
  double drain = 0;            ///< mean seconds
  /// Mean bubble of the steps with a pause ÷ median of the others; nothing: no pause, or no bubble.
  std::optional<double> amplification;
  Attribution why;
};

/// Puts steps together into windows of `steps`.
class WindowBuilder {
 public:
  explicit WindowBuilder(int64_t steps) : size_(static_cast<size_t>(steps)) {}

  /// The window that this step completes.
  std::optional<Window> add(const StepObservation& step);
  /// Steps until then.
  size_t missing() const { return size_ - steps_.size(); }

 private:
  Window close() const;

  size_t size_;
  std::vector<StepObservation> steps_;
};

}  // namespace penstock::budget
