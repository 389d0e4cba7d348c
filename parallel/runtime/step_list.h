#pragma once

#include <array>
#include <cstdint>
#include <memory>
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
};

/// A rank's program, ready to be enqueued any number of times, with the events that join its lanes.
class StepList {
 public:
  /// `program` is complete for all ranks: who meets whom is checked. UsageError where it does not fit
  /// together.
  StepList(Device& device, const schedule::Program& program, int rank);

  const std::vector<Step>& steps() const { return steps_; }
  int micro_batches() const { return micro_batches_; }

 private:
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<ProfilerRange>> ranges_;
  int micro_batches_;
};

}  // namespace penstock::runtime
