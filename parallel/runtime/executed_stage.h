#pragma once

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "model/slot.h"
#include "parallel/schedule/action.h"

namespace penstock::runtime {

/// One action, as the executor hands it to a stage.
struct StageCall {
  int micro_batch = 0;
  model::SlotIds slots;
  Tensor input;       ///< what the neighbour's output or gradient arrived in; absent at the model's ends
  int output = 0;     ///< the rank's boundary buffer that the result goes to
  bool last = false;  ///< backward_weight: the stage's last of the step
};

/// What the executor sees of a stage. Calls only enqueue, allocate nothing, and do not wait. `call.input` may
/// be written again once the work of the call is done.
class ExecutedStage {
 public:
  virtual ~ExecutedStage() = default;
  /// Before the start of a forward is stamped: waits for what its first unit needs and may not be there yet.
  virtual void await_parameters(Stream& /*stream*/) {}
  virtual void forward(Stream& stream, const StageCall& call) = 0;
  virtual void backward_input(Stream& stream, const StageCall& call) = 0;
  virtual void backward_weight(Stream& stream, const StageCall& call) = 0;
};

/// What a step does beside actions and messages. `stage`: its number in the model. Calls only enqueue.
class StepOperations {
 public:
  virtual ~StepOperations() = default;
  /// Sums the stage's gradients over the replicas and copies: all that is left of the step where `last`;
  /// else, of the window that `action` ended, what accumulates in I or what accumulates in W, whichever it
  /// is. Orders itself behind the compute that made them.
  virtual void reduce_gradients(Stream& stream, const schedule::Action& action, bool last) = 0;
  /// Adds the tied weight's two accumulators, exchanging them where they are on two ranks.
  virtual void sum_tied(Stream& stream) = 0;
  /// Asynchronous schedules: agrees with all ranks on the norm and the losses.
  virtual void agree(Stream& stream) = 0;
  /// Agrees with all ranks on the norm, unless the program says when, and updates the parameters.
  virtual void optimizer_step(Stream& stream) = 0;
  /// Gathers the stage's parameters from those that own and have updated them, for the forwards that follow.
  virtual void gather_parameters(Stream& stream, const schedule::Action& action) = 0;
};

}  // namespace penstock::runtime
