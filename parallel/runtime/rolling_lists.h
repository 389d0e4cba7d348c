#pragma once

#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/runtime/step_list.h"
#include "parallel/schedule/rolling.h"

namespace penstock::runtime {

/// A rank's lists of a schedule without a flush, ready to be enqueued one behind another. A step is known by
/// its parity, which is Instruction::step there; its micro-batch m is number parity · M + m. What waits
/// across lists waits for the event of the same instruction, as it was recorded last.
class RollingLists {
 public:
  /// `step`: the program of one step, which outlives the lists: an instruction's stamp stands where it stands
  /// in that. `stream`: events are recorded there once, so that none is waited for unrecorded. ScheduleError
  /// or UsageError where the programs do not fit together.
  RollingLists(Device& device, const schedule::RollingProgram& program, const schedule::Program& step,
               int rank, Stream& stream);

  /// Of a step behind a drain; behind another step; and what is left of the last step.
  const StepList& start(size_t parity) const { return *start_[parity]; }
  const StepList& follow(size_t parity) const { return *follow_[parity]; }
  const StepList& drain(size_t parity) const { return *drain_[parity]; }

 private:
  using Lists = std::array<std::unique_ptr<StepList>, 2>;

  /// By place in the step's program, and parity.
  std::map<std::pair<size_t, int>, std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<ProfilerRange>> ranges_;
  Lists start_;
  Lists follow_;
  Lists drain_;
};

}  // namespace penstock::runtime
