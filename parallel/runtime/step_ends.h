#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "kernels/device/device.h"
#include "parallel/runtime/step_list.h"

namespace penstock::runtime {

/// Where a host waits for one of two steps that overlap, as the device is never idle between them.
class StepEnds {
 public:
  /// `stream`: events are recorded there once, so that none is waited for unrecorded.
  StepEnds(Device& device, Stream& stream);
  /// Behind every instruction of either step, and its stamps (ExecutorParts::after).
  void mark(Stream& stream, const schedule::Instruction& instruction);
  /// Until all of the step with this parity has ended but its update, and the update of the step before has:
  /// what was stamped and told until then is there. Both were enqueued.
  void wait(size_t parity) const;

 private:
  /// By parity and lane: behind the last send, agreement and update. What else runs is before the agreement,
  std::array<std::array<std::unique_ptr<Event>, lane_count>, 2> ends_;
  /// but for the stamp of the last backward: sums of gradients begin before it, as soon as they are there.
  std::array<std::unique_ptr<Event>, 2> backward_;
};

}  // namespace penstock::runtime
