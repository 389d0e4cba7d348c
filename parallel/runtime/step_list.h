#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/device/profiler_range.h"
#include "parallel/runtime/slot_plan.h"
#include "parallel/schedule/program.h"

namespace penstock::runtime {

/// The streams of a rank. Messages and sums have their own, so that they run beside the compute.
enum class Lane : uint8_t { compute, send, receive, reduction };
inline constexpr size_t lane_count = 4;
std::string_view name_of(Lane lane);
/// UsageError for what no engine executes.
Lane lane_of(schedule::InstructionKind kind);

/// An instruction with all that its enqueueing needs.
struct Step {
  schedule::Instruction instruction;
  Lane lane = Lane::compute;
  model::SlotIds slots;
  /// What it waits for on other lanes; null: nothing.
  std::array<const Event*, 3> waits{};
  /// Recorded behind it; null where no other lane waits for it.
  Event* done = nullptr;
  /// Named as in traces; null where the device has no profiler.
  ProfilerRange* range = nullptr;
  /// Its place among the stamps of its step, and what they name; null: `instruction`.
  size_t stamp = 0;
  const schedule::Instruction* named = nullptr;
};

/// Where slots and buffers are taken in turn (schedule/rolling.h): of how many. Micro-batch i of the run has
/// number i mod each.
struct Turns {
  int micro_batches = 1;  ///< of a step
  model::SlotIds slots;
  std::array<int, schedule::buffer_pools> buffers{};
};

/// A rank's program, ready to be enqueued any number of times, with the events that join its lanes.
///
/// A sharded optimizer's gathers stand at the end of the program and are enqueued at the beginning: each
/// step's are those of the step before, so that they pass beside its first forwards. The sequence of steps is
/// the same, cut elsewhere: in the one global order a rank's gathers come behind everything of the step whose
/// parameters they carry and ahead of everything of the next, on every rank. They wait for nothing on other
/// lanes, as a step begins when the one before it is done; stages wait for theirs by themselves.
class StepList {
 public:
  /// `program` is complete for all ranks: who meets whom is checked. UsageError where it does not fit
  /// together.
  StepList(Device& device, const schedule::Program& program, int rank);
  /// Steps that were prepared elsewhere (rolling_lists.h), whose places are taken in turn.
  StepList(std::vector<Step> steps, const Turns& turns);

  const std::vector<Step>& steps() const { return steps_; }
  /// How many of the last steps are enqueued first.
  size_t gathers() const { return gathers_; }
  int micro_batches() const { return micro_batches_; }
  /// Null: places are fixed.
  const Turns* turns() const { return turns_ ? &*turns_ : nullptr; }

 private:
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<ProfilerRange>> ranges_;
  size_t gathers_ = 0;
  int micro_batches_;
  std::optional<Turns> turns_;
};

}  // namespace penstock::runtime
