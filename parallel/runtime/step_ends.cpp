#include "parallel/runtime/step_ends.h"

namespace penstock::runtime {

using schedule::InstructionKind;

StepEnds::StepEnds(Device& device, Stream& stream) {
  for (auto& lanes : ends_) {
    for (const Lane lane : {Lane::compute, Lane::send, Lane::reduction}) {
      std::unique_ptr<Event>& end = lanes[static_cast<size_t>(lane)];
      end = device.create_event("step ended");
      stream.record(*end);
    }
  }
  for (std::unique_ptr<Event>& end : backward_) {
    end = device.create_event("backward ended");
    stream.record(*end);
  }
}

void StepEnds::mark(Stream& stream, const schedule::Instruction& instruction) {
  switch (instruction.kind) {
    case InstructionKind::send:
    case InstructionKind::agree:
    case InstructionKind::optimizer_step: {
      const auto lane = static_cast<size_t>(lane_of(instruction.kind));
      stream.record(*ends_[static_cast<size_t>(instruction.step)][lane]);
      return;
    }
    case InstructionKind::compute:
      if (gives_weight_gradient(instruction.action.op))
        stream.record(*backward_[static_cast<size_t>(instruction.step)]);
      return;
    default:
      return;
  }
}

void StepEnds::wait(size_t parity) const {
  ends_[parity][static_cast<size_t>(Lane::reduction)]->synchronize();
  ends_[parity][static_cast<size_t>(Lane::send)]->synchronize();
  backward_[parity]->synchronize();
  ends_[1 - parity][static_cast<size_t>(Lane::compute)]->synchronize();
}

}  // namespace penstock::runtime
