#pragma once

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "kernels/math/step_scalars.h"

namespace penstock::math {

struct AdamWConstants {
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.1F;  ///< 0 for parameters without decay
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// AdamW (Loshchilov and Hutter, 2019), element by element, n elements, all fp32:
  ///   g = gradient · clip_factor;  m = β1 m + (1−β1) g;  v = β2 v + (1−β2) g²;
  ///   p = p − lr (m / c1 / (sqrt(v / c2) + ε) + λ p)
  /// with lr, clip_factor, c1 and c2 read from *scalars (device memory); nothing changes when scalars->apply
  /// is 0. copy: absent, or bf16 or fp16 (n): the compute copy, written as p rounded to nearest even.
  virtual void adamw(Stream& stream, Tensor parameter, Tensor gradient, Tensor moment1, Tensor moment2,
                     Tensor copy, AdamWConstants constants, const StepScalars* scalars) = 0;
};

}  // namespace penstock::math
