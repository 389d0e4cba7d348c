#pragma once

#include <cstdint>
#include <memory>

#include "kernels/device/device.h"
#include "parallel/runtime/executed_stage.h"
#include "parallel/runtime/replay_times.h"

namespace penstock::runtime {

/// Enqueues work that takes `seconds`: on a virtual clock exactly, on a real one asleep. `name`: a literal.
void enqueue_sleep(Stream& stream, const Clock& clock, const char* name, double seconds);

/// A stage whose actions take their time and compute nothing.
class SleepingStage final : public ExecutedStage {
 public:
  /// `stage` of the model. `times` outlives it. `marks_all`: gradients are summed while the step still runs.
  SleepingStage(Device& device, const ReplayTimes& times, int stage, bool marks_all);

  /// The calls that follow belong to this step, and take `rank_factor` times as long.
  void begin(uint64_t step, double rank_factor) {
    step_ = step;
    rank_factor_ = rank_factor;
  }

  void forward(Stream& stream, const StageCall& call) override;
  void backward_input(Stream& stream, const StageCall& call) override;
  void backward_weight(Stream& stream, const StageCall& call) override;

  /// The stage's gradients of the step are complete; if it marks all: those of the actions so far.
  const Event& done() const { return *done_; }

 private:
  void enqueue(Stream& stream, const char* name, schedule::Op op, const StageCall& call);

  const ReplayTimes& times_;
  const Clock& clock_;
  const int stage_;
  const bool marks_all_;
  uint64_t step_ = 0;
  double rank_factor_ = 1;
  std::unique_ptr<Event> done_;
};

}  // namespace penstock::runtime
