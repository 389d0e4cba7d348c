#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/dtype.h"

namespace penstock::cpu {

/// y (M,N) = x (M,K) · w (N,K)ᵀ + bias (N) for few rows M, whose time is that of reading w once. x and w in
/// `in` (fp32, bf16 or fp16), y in `out` (that, or fp32), sums and bias in fp32.
///
/// An element is one fixed order of additions over its own row of x and of w: its bits depend neither on the
/// number of rows nor on threads nor on the place in memory. (bf16 is multiplied pair by pair where the
/// build's processor has the instruction, which takes subnormal numbers for 0.)
class RowProduct {
 public:
  /// `rows`: the most of a call.
  RowProduct(int64_t rows, int64_t columns, int64_t depth, DType in, DType out)
      : rows_(rows), columns_(columns), depth_(depth), in_(in), out_(out) {}

  int64_t rows() const { return rows_; }
  /// Scratch memory of run().
  size_t workspace_bytes() const;
  /// On the threads of the calling stream. `bias` may be null.
  void run(int64_t rows, const void* x, const void* w, const float* bias, void* y, void* workspace) const;

 private:
  int64_t rows_;
  int64_t columns_;
  int64_t depth_;
  DType in_;
  DType out_;
};

}  // namespace penstock::cpu
