#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "tests/simt/block.h"

namespace penstock::simt {

WarpGroup& Machine::join_group(Warp& warp, Thread& thread, WarpOperation operation, uint32_t mask, int width,
                               const std::source_location& place) {
  if ((mask & thread.bit()) == 0) {
    fault(fmt::format("lane {} is not in its own mask {:#010x}", thread.lane(), mask), place);
  }
  // Masks may overlap those of operations that other lanes are still in. Lanes that never meet are found when
  // nothing moves any more.
  for (unsigned i = 0; i < warp.group_count; ++i) {
    WarpGroup& group = warp.groups[i];
    if (group.mask == mask && group.operation == operation && group.width == width &&
        same_place(group.place, place)) {
      return group;
    }
  }
  // Nobody leaves while lanes wait for it: those that join later need not look.
  const unsigned first = thread.number - thread.lane();
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    if (first + lane >= count_) {
      fault(fmt::format("mask {:#010x} names lane {}, which the block does not have", mask, lane), place);
    }
    if (threads_[first + lane]->state == ThreadState::finished) {
      fault(fmt::format("an operation of its warp with a lane missing: lane {} has returned", lane), place);
    }
  }
  WarpGroup& group = warp.groups[warp.group_count++];
  group = {mask, 0, operation, width, place};
  return group;
}

uint64_t Machine::warp_exchange(WarpOperation operation, uint32_t mask, uint64_t value, int argument,
                                int width, const std::source_location& place) {
  Thread& thread = *running_;
  Warp& warp = warps_[thread.number / warp_size];
  WarpGroup& group = join_group(warp, thread, operation, mask, width, place);
  thread.value = value;
  thread.argument = argument;
  thread.place = place;
  group.arrived |= thread.bit();
  Meeting& meeting = warp.meetings[warp.synchronised % 2];
  if (operation == WarpOperation::sync) meeting.arrive();
  if (group.arrived == group.mask) {
    const WarpGroup whole = group;
    group = warp.groups[--warp.group_count];  // its place is the last one's now
    if (operation == WarpOperation::sync) ++warp.synchronised;
    complete(warp, whole, thread.number - thread.lane());
  } else {
    wait(ThreadState::in_warp, place);
  }
  // Only __syncwarp orders memory.
  if (operation == WarpOperation::sync) meeting.leave();
  return thread.value;
}

void Machine::complete(Warp& /*warp*/, const WarpGroup& group, unsigned first_thread) {
  uint64_t results[warp_size] = {};
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    if ((group.mask >> lane & 1U) != 0) {
      results[lane] = result(group, first_thread, *threads_[first_thread + lane]);
    }
  }
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    if ((group.mask >> lane & 1U) == 0) continue;
    Thread& thread = *threads_[first_thread + lane];
    thread.value = results[lane];
    if (&thread != running_) make_ready(thread);
  }
}

uint64_t Machine::result(const WarpGroup& group, unsigned first_thread, const Thread& thread) const {
  const auto lane = static_cast<int>(thread.lane());
  const int segment = group.width > 0 ? lane / group.width * group.width : 0;
  int source = lane;
  switch (group.operation) {
    case WarpOperation::sync:
      return 0;
    case WarpOperation::ballot:
    case WarpOperation::any:
    case WarpOperation::all: {
      uint32_t votes = 0;
      for (unsigned other = 0; other < warp_size; ++other) {
        if ((group.mask >> other & 1U) != 0 && threads_[first_thread + other]->value != 0) {
          votes |= uint32_t{1} << other;
        }
      }
      if (group.operation == WarpOperation::ballot) return votes;
      return group.operation == WarpOperation::any ? uint64_t{votes != 0} : uint64_t{votes == group.mask};
    }
    case WarpOperation::shuffle:
      source = segment + (thread.argument & (group.width - 1));
      break;
    case WarpOperation::shuffle_up:
      source = lane - thread.argument < segment ? lane : lane - thread.argument;
      break;
    case WarpOperation::shuffle_down:
      source = lane + thread.argument >= segment + group.width ? lane : lane + thread.argument;
      break;
    case WarpOperation::shuffle_xor:
      source = (lane ^ thread.argument) >= segment + group.width ? lane : lane ^ thread.argument;
      break;
  }
  if ((group.mask >> static_cast<unsigned>(source) & 1U) == 0) {
    fault(fmt::format("lane {} reads lane {}, which is not in mask {:#010x}", lane, source, group.mask),
          group.place);
  }
  return threads_[first_thread + static_cast<unsigned>(source)]->value;
}

}  // namespace penstock::simt
