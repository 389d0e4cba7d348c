#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/transport/world.h"
#include "parallel/runtime/disturbance.h"
#include "parallel/runtime/executor.h"
#include "parallel/runtime/replay_times.h"
#include "parallel/runtime/rolling_lists.h"
#include "parallel/runtime/sleeping_stage.h"
#include "parallel/runtime/step_ends.h"

namespace penstock::runtime {

/// When a rank's step began and ended, and what it spent before its program: seconds on its clock, which on
/// virtual clocks is that of all ranks.
struct StepTimes {
  double begin = 0;
  double evaluated = 0;     ///< begin … evaluated: evaluation
  double checkpointed = 0;  ///< … checkpointed: checkpoint
  double loaded = 0;        ///< … loaded: data; the program starts here
  double end = 0;           ///< its optimizer step is done
};

/// Makes a stage of the model; empty: SleepingStage.
using StageMaker = std::function<std::unique_ptr<SleepingStage>(
    Device& device, int stage, const std::vector<SleepingStage::WindowEnd>& windows)>;

/// One rank of a replayed pipeline: PipelineEngine's executor, streams and messages, without a model. All
/// ranks make the same calls.
///
/// On virtual clocks (an inproc world with the links of replay_links()) times are exact: without disturbances
/// and noise those of schedule::simulate(). On real clocks actions sleep, and messages are what they are.
class ReplayEngine final : private StepOperations {
 public:
  /// Collective over both worlds, which have a rank a pipeline rank. Messages go through `world`; `sums` is
  /// for tied sums and what all ranks agree on, whose times are given: on virtual clocks a world with free
  /// links, else it may be the same. Messages are of `message_bytes`. All arguments outlive the engine.
  /// One engine a device.
  /// UsageError for programs with a sharded optimizer, whose replicas would have to meet, and for traffic
  /// slow-down.
  ReplayEngine(Device& device, transport::World& world, transport::World& sums,
               const schedule::Program& program, const ReplayTimes& times, int64_t message_bytes = 1,
               const StageMaker& make_stage = {}, const schedule::RollingProgram* rolling = nullptr);
  ~ReplayEngine() override;
  ReplayEngine(const ReplayEngine&) = delete;
  ReplayEngine& operator=(const ReplayEngine&) = delete;

  /// Enqueues a whole step and returns. finish_step() comes before the next; if steps overlap, before the one
  /// after the next.
  void start_step(uint64_t step);
  /// Waits for the step that was started first. If none follows that it would overlap with, the pipeline is
  /// drained.
  void finish_step();
  int started_steps() const { return started_; }

  /// Of the step that was finished last: one an instruction of the rank's list. On a virtual clock a host
  /// enqueues at once, where it is not made late.
  std::span<const Stamp> stamps() const { return stamps_[finished_]; }
  /// If steps overlap, the optimizer step of the step before; that of the step itself may be ahead.
  const Stamp& optimizer_before() const { return stamps_[(finished_ + kept - 1) % kept].back(); }
  const StepTimes& times() const { return step_times_[finished_]; }

 private:
  void reduce_gradients(Stream& stream, const schedule::Action& action, bool last) override;
  void sum_tied(Stream& stream) override;
  void agree(Stream& stream) override;
  void optimizer_step(Stream& stream) override;
  void gather_parameters(Stream& /*stream*/, const schedule::Action& /*action*/) override {}  // refused

  ExecutorParts executor_parts(const schedule::Program& program, int64_t message_bytes,
                               const StageMaker& make_stage, const schedule::RollingProgram* rolling);
  /// Waits for the communicator's other rank. `bytes`: two, of this pair alone.
  static void meet(Stream& stream, transport::Communicator& pair, std::byte* bytes);
  void pause(double seconds, const char* name, double* end);
  StepsUnderWay steps_under_way();
  /// What is enqueued next is of the step.
  void select(const schedule::Instruction& instruction);

  Device& device_;
  const Clock& clock_;
  transport::World& world_;
  transport::World& sums_;
  const ReplayTimes& times_;
  const int rank_;
  const int blocks_;
  const bool asynchronous_;
  static constexpr size_t kept = 4;  ///< steps
  // Of two steps that may overlap, by parity.
  std::array<double, 2> host_seconds_{};
  std::array<double, 2> rank_factor_{1, 1};
  std::array<uint64_t, 2> step_{};
  std::unique_ptr<transport::Communicator> pipeline_;
  std::unique_ptr<transport::Communicator> tied_;  ///< of a tied exchange, where we are in one
  std::unique_ptr<transport::Communicator>
      copies_;  ///< of the two ranks with copies of our stages; two copies
  std::unique_ptr<transport::Communicator> all_;
  std::array<std::byte, 4> meeting_bytes_{};
  std::vector<std::unique_ptr<SleepingStage>> stages_;  ///< by stage of the model; null: another rank's
  StepList list_;
  std::unique_ptr<StepEnds> ends_;
  size_t enqueued_ = 0;  ///< the parity of what is enqueued
  uint64_t last_ = 0;    ///< that was started
  int started_ = 0;      ///< and not finished
  bool open_ = false;    ///< not drained
  size_t finished_ = 0;  ///< place of the step that was finished last
  std::array<std::vector<Stamp>, kept> stamps_;
  std::array<StepTimes, kept> step_times_{};
  Executor executor_;
  std::unique_ptr<RollingLists> rolling_;
  transport::AbortOnUnwind abort_world_;
  transport::AbortOnUnwind abort_sums_;
};

}  // namespace penstock::runtime
