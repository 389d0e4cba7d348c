#include "parallel/runtime/step_list.h"

#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "parallel/schedule/wiring.h"

namespace penstock::runtime {

using schedule::InstructionKind;

Lane lane_of(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::send:
      return Lane::send;
    case InstructionKind::receive:
      return Lane::receive;
    case InstructionKind::compute:
    case InstructionKind::optimizer_step:
      return Lane::compute;
    case InstructionKind::reduce_gradients:
    case InstructionKind::sum_tied:
    case InstructionKind::agree:
    case InstructionKind::gather_parameters:
      return Lane::reduction;
  }
  throw UsageError(fmt::format("nothing here executes \"{}\"", to_string(kind)));
}

std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::compute:
      return "compute";
    case Lane::send:
      return "send";
    case Lane::receive:
      return "receive";
    case Lane::reduction:
      return "reduction";
  }
  return "?";
}

StepList::StepList(Device& device, const schedule::Program& program, int rank)
    : micro_batches_(program.schedule.micro_batches) {
  std::vector<schedule::Violation> found;
  const schedule::Wiring wiring = wire(program, found);
  if (!found.empty()) throw UsageError(found.front().text());
  const auto& instructions = program.ranks[static_cast<size_t>(rank)].instructions;
  const SlotPlan slots = plan_slots(program, rank);
  const int first = wiring.first[static_cast<size_t>(rank)];
  for (size_t i = 0; i < instructions.size(); ++i)
    steps_.push_back(
        {instructions[i], lane_of(instructions[i].kind), slots.slots[i], {}, nullptr, nullptr, i, nullptr});
  if (auto* profiler = dynamic_cast<ProfilerRanges*>(&device)) {
    for (Step& step : steps_) {
      ranges_.push_back(profiler->create_range(in_words(step.instruction)));
      step.range = ranges_.back().get();
    }
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    // A reduction waits unit by unit, by itself.
    if (steps_[i].instruction.kind == InstructionKind::reduce_gradients) continue;
    if (steps_[i].instruction.kind == InstructionKind::gather_parameters) {
      ++gathers_;
      continue;
    }
    if (gathers_ > 0)
      throw UsageError(fmt::format("{} after parameters were gathered", in_words(steps_[i].instruction)));
    size_t waits = 0;
    for (const int id : wiring.waits_for[static_cast<size_t>(first) + i]) {
      if (id < 0) continue;
      Step& other = steps_[static_cast<size_t>(id - first)];
      if (other.lane == steps_[i].lane) continue;
      if (other.done == nullptr) {
        events_.push_back(device.create_event(to_string(other.instruction)));
        other.done = events_.back().get();
      }
      steps_[i].waits[waits++] = other.done;
    }
  }
}

StepList::StepList(std::vector<Step> steps, const Turns& turns)
    : steps_(std::move(steps)), micro_batches_(turns.micro_batches), turns_(turns) {}

}  // namespace penstock::runtime
