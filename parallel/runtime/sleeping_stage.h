#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/device/device.h"
#include "parallel/runtime/executed_stage.h"
#include "parallel/runtime/replay_times.h"

namespace penstock::runtime {

/// Enqueues work that takes `seconds`: on a virtual clock exactly, on a real one asleep. `name`: a literal.
void enqueue_sleep(Stream& stream, const Clock& clock, const char* name, double seconds);

/// A stage whose actions take their time and compute nothing.
class SleepingStage final : public ExecutedStage {
 public:
  /// `stage` of the model. `times` outlives it. `closing`: actions that end windows of micro-batches before
  /// the step's last (schedule::LoweringOptions::reduce_every).
  SleepingStage(Device& device, const ReplayTimes& times, int stage,
                const std::vector<schedule::Action>& closing);

  /// The calls that follow belong to this step, and take `rank_factor` times as long.
  void begin(uint64_t step, double rank_factor) {
    step_ = step;
    rank_factor_ = rank_factor;
  }

  void forward(Stream& stream, const StageCall& call) override;
  void backward_input(Stream& stream, const StageCall& call) override;
  void backward_weight(Stream& stream, const StageCall& call) override;

  /// The stage's gradients of the step are complete.
  const Event& done() const { return *done_; }
  /// `closing` is done.
  const Event& done(const schedule::Action& closing) const;

 private:
  struct Window {
    schedule::Action closing;
    std::unique_ptr<Event> done;
  };
  /// Records the end of the window that the action ends, if it ends one.
  void close(Stream& stream, schedule::Op op, int micro_batch);
  void enqueue(Stream& stream, const char* name, schedule::Op op, const StageCall& call);

  const ReplayTimes& times_;
  const Clock& clock_;
  const int stage_;
  uint64_t step_ = 0;
  double rank_factor_ = 1;
  std::unique_ptr<Event> done_;
  std::vector<Window> windows_;
};

}  // namespace penstock::runtime
