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

/// A stage whose actions take their time and compute nothing; or, in benchmarks, work of its own.
class SleepingStage : public ExecutedStage {
 public:
  /// A window of micro-batches before the step's last (schedule::LoweringOptions::reduce_every).
  struct WindowEnd {
    schedule::Action closing;
    schedule::Op call = schedule::Op::backward_input;  ///< of its micro-batch, with which it is complete
  };
  /// `stage` of the model. `times` outlives it.
  SleepingStage(Device& device, const ReplayTimes& times, int stage, const std::vector<WindowEnd>& windows);

  /// The calls that follow belong to this step, and take `rank_factor` times as long.
  void begin(uint64_t step, double rank_factor) {
    step_ = step;
    rank_factor_ = rank_factor;
  }

  void forward(Stream& stream, const StageCall& call) final;
  void backward_input(Stream& stream, const StageCall& call) final;
  void backward_weight(Stream& stream, const StageCall& call) final;

  /// The stage's gradients of the step are complete.
  const Event& done() const { return *done_; }
  /// The window that `closing` ends is complete.
  const Event& done(const schedule::Action& closing) const;

 protected:
  /// Enqueues an action; `op` is not a whole backward.
  virtual void enqueue(Stream& stream, const char* name, schedule::Op op, int micro_batch);

 private:
  struct Window {
    WindowEnd end;
    std::unique_ptr<Event> done;
  };
  /// Records the ends of the windows that are complete with the call.
  void close(Stream& stream, schedule::Op call, int micro_batch);

  const ReplayTimes& times_;
  const Clock& clock_;
  const int stage_;
  uint64_t step_ = 0;
  double rank_factor_ = 1;
  std::unique_ptr<Event> done_;
  std::vector<Window> windows_;
};

}  // namespace penstock::runtime
