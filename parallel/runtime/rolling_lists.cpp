#include "parallel/runtime/rolling_lists.h"

#include <set>
#include <utility>

#include "kernels/device/error.h"
#include "parallel/schedule/wiring.h"

namespace penstock::runtime {

using schedule::Instruction;
using schedule::InstructionKind;
using schedule::RollingProgram;

namespace {

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

  const std::vector<size_t> places = places_in_step(program, step)[r];
  const auto& named = step.ranks[r].instructions;

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
  std::set<size_t> waited;
  for (size_t i = 0; i < all.size(); ++i) {
    for (const int id : wiring.waits_for[static_cast<size_t>(first) + i]) {
      if (joins(i, id)) waited.insert(places[static_cast<size_t>(id - first)]);
    }
  }
  // An instruction's parity in a list whose own step has `parity`.
  const auto parity_of = [](const Instruction& at, int own_step, int parity) {
    return ((at.step - own_step + parity) % 2 + 2) % 2;
  };
  const auto event_of = [&](size_t place, int parity) -> Event* {
    std::unique_ptr<Event>& event = events_[{place, parity}];
    if (!event) {
      event = device.create_event(to_string(named[place]));
      stream.record(*event);
    }
    return event.get();
  };
  const auto steps_of = [&](int list, int own_step, int parity) {
    std::vector<Step> steps;
    for (size_t i = 0; i < all.size(); ++i) {
      if (program.lists[r][i] != list) continue;
      const int own = parity_of(all[i], own_step, parity);
      Step& made = steps.emplace_back();
      made.instruction = in_turn(all[i], micro_batches, own);
      made.lane = lane_of(all[i].kind);
      made.stamp = places[i];
      made.named = &named[places[i]];
      if (auto* profiler = dynamic_cast<ProfilerRanges*>(&device)) {
        ranges_.push_back(profiler->create_range(in_words(made.instruction)));
        made.range = ranges_.back().get();
      }
      if (waited.count(places[i]) > 0) made.done = event_of(places[i], own);
      size_t waits = 0;
      for (const int id : wiring.waits_for[static_cast<size_t>(first) + i]) {
        if (!joins(i, id)) continue;
        const auto other = static_cast<size_t>(id - first);
        made.waits[waits++] = event_of(places[other], parity_of(all[other], own_step, parity));
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
