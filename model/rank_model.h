#pragma once

#include <memory>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "model/optimizer.h"
#include "model/parameter_store.h"
#include "model/planned_memory.h"
#include "model/stage.h"

namespace penstock::model {

/// What the host learns of a step.
struct StepResult {
  double loss_sum = 0;  ///< over the target tokens, micro-batches added in ascending order
  double gradient_norm = 0;
  bool applied = false;  ///< false: the norm was not finite and nothing was updated
};

/// One rank's part of the model: its memory, parameters, stages and optimizer. All memory is reserved,
/// planned to the byte, and touched when the constructor returns; nothing is allocated later.
///
/// One step: optimizer().begin; for each micro-batch forward, backward_input, backward_weight of the stages;
/// optimizer().finish; read().
class RankModel {
 public:
  /// `device` and `math` outlive the model. No stream may have work on it when it is destroyed.
  RankModel(Device& device, math::Math& math, RankConfig config);

  const RankConfig& config() const { return config_; }
  PlannedMemory& memory() { return memory_; }
  ParameterStore& parameters() { return parameters_; }
  OptimizerStep& optimizer() { return optimizer_; }
  math::Math& math() { return math_; }
  size_t stages() const { return stages_.size(); }
  Stage& stage(size_t index) { return *stages_[index]; }

  /// Initial values and constants. Waits.
  void initialise(Stream& stream);
  /// Constants alone, such as the rotary table, and losses of 0: where the parameters come from elsewhere.
  void load_constants(Stream& stream);
  /// Sets every loss to 0: before a step or an evaluation.
  void zero_losses(Stream& stream);
  /// fp64 (micro-batches, loss_terms), of the selected step: with two versions of the weights the row of
  /// micro-batch m of step 1 is that of micro-batch m + config().micro_batches.
  Tensor losses() const;
  /// With two versions of the weights: the step, 0 or 1, that is enqueued from now on; its gradients, scalars
  /// and losses are its own. Which version it reads is another question (ParameterStore::select_version()).
  void select_step(size_t step);
  size_t selected_step() const { return selected_; }
  /// i64 (1), for diagnosis.
  Tensor nonfinite_count() const { return nonfinite_count_; }
  /// Waits for the stream, and reads the losses and the step's scalars.
  StepResult read(Stream& stream);

 private:
  RankConfig config_;
  math::Math& math_;
  CallSites sites_;
  PlannedMemory memory_;
  ParameterStore parameters_;
  OptimizerStep optimizer_;
  Tensor losses_;
  size_t selected_ = 0;
  Tensor rope_table_;
  Tensor nonfinite_count_;
  Group tensor_;
  Group context_;
  std::unique_ptr<UnitContext> unit_context_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<double> host_losses_;
  math::StepScalars host_scalars_;
};

}  // namespace penstock::model
