#pragma once

#include <cstdint>

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "kernels/math/step_scalars.h"

namespace penstock::math {

/// Squares are summed over blocks of this many elements, counted from a parameter's first element (contract
/// C1 g).
inline constexpr int64_t norm_block = 4096;
constexpr int64_t norm_blocks(int64_t elements) {
  return (elements + norm_block - 1) / norm_block;
}

class Reduce {
 public:
  virtual ~Reduce() = default;

  /// blocks (norm_blocks(n)) fp64: the sum of squares of each block of x (n) fp32, in double, in a fixed
  /// order.
  virtual void squares(Stream& stream, Tensor x, Tensor blocks) = 0;
  /// *out = the values (n) fp64 or fp32 added as doubles in ascending order.
  virtual void sum(Stream& stream, Tensor values, double* out) = 0;
  /// From sums (n) fp64, one a parameter in model order: gradient_norm = sqrt(Σ) / loss_scale, clip_factor =
  /// min(1, clip_norm / (gradient_norm + 1e-6)) / loss_scale (1 / loss_scale if clip_norm ≤ 0), apply =
  /// whether the norm is finite. loss_scale is read from the scalars.
  virtual void global_norm(Stream& stream, Tensor sums, float clip_norm, StepScalars* scalars) = 0;
  /// *out += how many elements of x (fp32, bf16 or fp16) are NaN or infinite. For the diagnosis after a bad
  /// step.
  virtual void count_nonfinite(Stream& stream, Tensor x, int64_t* out) = 0;
};

}  // namespace penstock::math
