#include "parallel/runtime/rolling_lists.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "parallel/schedule/wiring.h"

namespace penstock::runtime {

using schedule::Instruction;
using schedule::InstructionKind;
using schedule::RollingProgram;

namespace {

// Which instruction of its step it is.
std::string identity(const Instruction& instruction, int micro_batches) {
  Instruction at = instruction;
  at.action.micro_batch %= micro_batches;
  return fmt::format("{} {}", static_cast<int>(at.kind), to_string(at));
}

// As one of two steps that take turns.
Instruction in_turn(Instruction instruction, int micro_batches, int parity) {
  instruction.step = parity;
  instruction.action.micro_batch = parity * micro_batches + instruction.action.micro_batch % micro_batches;
  return instruction;
}

}  // namespace

RollingLists::RollingLists(Device& device, const RollingProgram& program, const schedule::Program& step,
                           int rank, Stream& stream) {
  const auto r = static_cast<size_t>(rank);
  const schedule::Program& window = program.window;
  const int micro_batches = window.schedule.micro_batches;
  std::vector<schedule::Violation> found;
  const schedule::Wiring wiring = wire(window, found);
  if (!found.empty()) throw UsageError(found.front().text());
  const int first = wiring.first[r];

  std::map<std::string, size_t> stamps;
  const auto& named = step.ranks[r].instructions;
  for (size_t i = 0; i < named.size(); ++i) stamps[identity(named[i], micro_batches)] = i;

  Turns turns;
  turns.micro_batches = micro_batches;
  turns.buffers = window.ranks[r].buffers;
  const auto slots = window.slots[static_cast<size_t>(window.schedule.stages_by_rank()[r].front())];
  turns.slots = {slots, slots, 1};

  const auto& all = window.ranks[r].instructions;
  const auto joins = [&](size_t waiting, int id) {                                       // two lanes
    if (id < 0 || all[waiting].kind == InstructionKind::reduce_gradients) return false;  // it waits by itself
    return lane_of(all[static_cast<size_t>(id - first)].kind) != lane_of(all[waiting].kind);
  };
  std::set<std::string> waited;
  for (size_t i = 0; i < all.size(); ++i) {
    for (const int id : wiring.waits_for[static_cast<size_t>(first) + i]) {
      if (joins(i, id)) waited.insert(identity(all[static_cast<size_t>(id - first)], micro_batches));
    }
  }
  // An instruction's parity in a list whose own step has `parity`.
  const auto parity_of = [](const Instruction& at, int own_step, int parity) {
    return ((at.step - own_step + parity) % 2 + 2) % 2;
  };
  const auto event_of = [&](const Instruction& at, int parity) -> Event* {
    const std::string key = fmt::format("{} of step {}", identity(at, micro_batches), parity);
    std::unique_ptr<Event>& event = events_[key];
    if (!event) {
      event = device.create_event(to_string(at));
      stream.record(*event);
    }
    return event.get();
  };
  const auto steps_of = [&](int list, int own_step, int parity) {
    std::vector<Step> steps;
    for (size_t i = 0; i < all.size(); ++i) {
      if (program.lists[r][i] != list) continue;
      const int own = parity_of(all[i], own_step, parity);
      const auto stamp = stamps.find(identity(all[i], micro_batches));
      if (stamp == stamps.end())
        throw UsageError(fmt::format("\"{}\" is not in the program of one step", to_string(all[i])));
      Step& made = steps.emplace_back();
      made.instruction = in_turn(all[i], micro_batches, own);
      made.lane = lane_of(all[i].kind);
      made.stamp = stamp->second;
      made.named = &named[stamp->second];
      if (auto* profiler = dynamic_cast<ProfilerRanges*>(&device)) {
        ranges_.push_back(profiler->create_range(in_words(made.instruction)));
        made.range = ranges_.back().get();
      }
      if (waited.count(stamp->first) > 0) made.done = event_of(all[i], own);
      size_t waits = 0;
      for (const int id : wiring.waits_for[static_cast<size_t>(first) + i]) {
        if (!joins(i, id)) continue;
        const Instruction& other = all[static_cast<size_t>(id - first)];
        made.waits[waits++] = event_of(other, parity_of(other, own_step, parity));
      }
    }
    return std::make_unique<StepList>(std::move(steps), turns);
  };
  for (int parity = 0; parity < 2; ++parity) {
    const auto p = static_cast<size_t>(parity);
    start_[p] = steps_of(RollingProgram::first, RollingProgram::first, parity);
    follow_[p] = steps_of(RollingProgram::steady, RollingProgram::steady, parity);
    drain_[p] = steps_of(RollingProgram::drain, RollingProgram::drain - 1, parity);
  }
}

}  // namespace penstock::runtime
