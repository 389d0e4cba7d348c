#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/stream_handle.h"
#include "kernels/device/dtype.h"
#include "kernels/math/step_scalars.h"

/// Launcher of optimizer.cu. Pointers are device memory; the formula is in kernels/math/optimizer.h.
namespace penstock::cuda {

/// One parameter: `elements` of each.
struct AdamWTensor {
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float* moment1 = nullptr;
  float* moment2 = nullptr;
  void* copy = nullptr;  ///< of AdamWStep::copy_type, or absent
  int64_t elements = 0;
  float weight_decay = 0;
  uint32_t identity = 0;  ///< < 2²⁴: keys stochastic rounding, the same for a parameter on every rank
};

struct AdamWStep {
  float beta1 = 0;
  float beta2 = 0;
  float epsilon = 0;
  const math::StepScalars* scalars = nullptr;
  DType copy_type = DType::bf16;  ///< or fp16
  /// bf16 only. Rounds the copy up with the probability that makes it right on average, instead of to
  /// nearest: adds the low 16 bits of word e mod 4 of philox({low e/4, high e/4, low step, purpose << 24 |
  /// identity}, {low seed, high seed}) to element e's bits before it cuts them off.
  bool stochastic_rounding = false;
  uint64_t seed = 0;
};

/// Updates any number of parameters, 32 a launch.
void adamw(StreamHandle stream, std::span<const AdamWTensor> tensors, const AdamWStep& step);

}  // namespace penstock::cuda
