#pragma once

#include <cstdint>

namespace penstock::math {

/// All that varies from step to step. It lies in device memory and kernels read it from there, never from a
/// launch argument, so that the host need not wait for a norm and a captured graph can be replayed.
struct StepScalars {
  uint64_t step = 0;  ///< optimizer steps completed before this one
  /// loss_scale / (target tokens of the whole step): the head scales its gradient by it.
  float gradient_scale = 1;
  /// What gradients are multiplied by on their way, a power of two, so that narrow types can hold them.
  float loss_scale = 1;
  float learning_rate = 0;
  float bias_correction1 = 1;  ///< 1 - beta1^(step + 1)
  float bias_correction2 = 1;  ///< 1 - beta2^(step + 1)
  float clip_factor = 1;       ///< written by Reduce::global_norm; takes the loss scale out again
  int32_t apply = 1;           ///< 0: the norm is not finite, the optimizer leaves everything as it is
  double gradient_norm = 0;    ///< written by Reduce::global_norm, before clipping, without the loss scale
};

}  // namespace penstock::math
