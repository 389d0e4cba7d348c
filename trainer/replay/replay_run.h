#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/transport/world.h"
#include "parallel/runtime/replay_engine.h"
#include "parallel/schedule/simulate.h"

namespace penstock::replay {

struct ReplayOptions {
  uint64_t first_step = 0;
  uint64_t steps = 1;
  bool sleeping = false;      ///< on the real clock; else in virtual time
  int64_t message_bytes = 1;  ///< that really move
  /// Virtual time: inline_now runs all ranks on one thread, the others each with its streams' workers; times
  /// are the same. Sleeping needs workers.
  StreamMode mode = StreamMode::inline_now;
  const schedule::RollingProgram* rolling = nullptr;  ///< of an asynchronous program, whose steps overlap
  runtime::StageMaker make_stage;                     ///< called by all ranks, at once; empty: stages sleep
};

/// What one rank did in a step; the stamps name the program's instructions.
struct RankStep {
  runtime::StepTimes times;
  std::vector<runtime::Stamp> stamps;
  /// Where steps overlap: whether this one did with the step before, and none does with this one; and the
  /// optimizer step of the step before.
  bool follows = false;
  bool drains = false;
  runtime::Stamp optimizer_before;
};

/// Takes the ranks of a step, in pipeline order, which stay as they are until it returns. In order of steps.
using StepSink = std::function<void(uint64_t step, std::span<const RankStep> ranks)>;

/// Replays a program on as many ranks, all in this process. What a rank or the sink throws is rethrown.
void run_replay(const schedule::Program& program, const runtime::ReplayTimes& times,
                const ReplayOptions& options, const StepSink& sink);

/// One rank of a replay whose ranks are processes, asleep: `world`'s rank. Messages are real ones: links of
/// the costs and of disturbances do not delay them. Rank 0 calls the sink, with every rank's clock set to 0
/// at a barrier ahead of the step.
void run_replay_rank(transport::World& world, const schedule::Program& program,
                     const runtime::ReplayTimes& times, const ReplayOptions& options, const StepSink& sink);

/// The step as the simulator would draw it, from the earliest begin of a rank's program on. Messages start
/// when their end is posted, which is before they can.
schedule::Timeline timeline_of(std::span<const RankStep> ranks);

}  // namespace penstock::replay
