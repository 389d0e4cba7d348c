#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "model/boundary.h"
#include "model/nonfinite.h"
#include "model/rank_model.h"

namespace penstock::runtime {

/// Runs steps of a model that one rank holds as one stage: micro-batch after micro-batch F, I, W, then the
/// optimizer.
///
/// Micro-batches are side bands in host memory, which must stay as they are until the step was finished.
/// Losses and gradients are added over micro-batches in ascending order (contract C1 b).
class LocalEngine {
 public:
  /// `device` and `math` outlive the engine. `config` has one stage of all units. All memory is reserved when
  /// this returns; DeviceError with the table if it is not there.
  LocalEngine(Device& device, math::Math& math, model::RankConfig config);
  ~LocalEngine();
  LocalEngine(const LocalEngine&) = delete;
  LocalEngine& operator=(const LocalEngine&) = delete;

  model::RankModel& rank() { return rank_; }
  Stream& stream() { return *stream_; }

  /// Enqueues a whole step and returns; at most config.micro_batches side bands.
  void start_step(const model::StepInputs& inputs, std::span<const model::SideBand> micro_batches);
  /// Waits for the step that was started.
  model::StepResult finish_step() { return rank_.read(*stream_); }

  /// Loss summed over the target tokens of any number of micro-batches, forward only. Waits.
  double evaluate(std::span<const model::SideBand> micro_batches);
  /// logits (V) fp32 after token `row` (0…N−1) of one micro-batch, forward only. Waits.
  std::span<const float> logits(const model::SideBand& micro_batch, int64_t row);

  /// Names the first unit with a NaN or infinity in a step over these micro-batches, and which of them it
  /// was. The step's gradients are lost. Waits.
  struct Finding {
    model::Nonfinite where;
    size_t micro_batch = 0;
  };
  std::optional<Finding> find_nonfinite(std::span<const model::SideBand> micro_batches);

 private:
  Device& device_;
  model::RankModel rank_;
  std::unique_ptr<Stream> stream_;
  Tensor logits_;  // (V) in the communication arena, made when first asked for: training never needs it
  std::vector<float> host_logits_;
};

}  // namespace penstock::runtime
