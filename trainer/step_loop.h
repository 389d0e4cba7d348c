#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/participant.h"

namespace penstock {

/// Runs steps until the last one or until somebody asks to stop.
struct StepLoop {
  /// Does step number `step` (0-based: steps completed before it). `pauses`: the step that follows must not
  /// be begun before this one was decided on.
  std::function<StepSummary(int64_t step, bool pauses)> train_step;
  /// Whether the step that follows has begun already; none: it never has. The same on every rank. What was
  /// decided then waits for the end of that step, behind which none has begun.
  std::function<bool()> follows;
  /// The collective vote: turns this rank's wishes into the decision of all. One rank: returns its argument.
  std::function<Decision(const Decision& wishes)> vote;
  /// Takes the run back, after all have acted; the number of steps that are completed then. It may turn the
  /// decision into one to stop. Unused where nobody asks for it.
  std::function<int64_t(const StepSummary& result, Decision& decision)> roll_back;
  /// In the order in which they wish and act.
  std::vector<Participant*> participants;

  /// Runs steps [first, last). Returns the decision that ended the run; `finished` is set once step `last` is
  /// done.
  Decision run(int64_t first, int64_t last) const;
};

}  // namespace penstock
