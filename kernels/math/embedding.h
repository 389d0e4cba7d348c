#pragma once

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "kernels/math/support.h"

namespace penstock::math {

/// Token and position embedding: N tokens, C channels, V rows of the token table, T rows of the position
/// table.
class Embedding {
 public:
  virtual ~Embedding() = default;
  virtual Support supports(DType dtype) const = 0;

  /// y (N,C) = token_table[tokens] + position_table[positions]. tokens, positions: i32 (N), in range (the
  /// caller checks before any kernel sees them); position_table (T,C) may be absent; tables and y in one
  /// dtype.
  virtual void forward(Stream& stream, Tensor tokens, Tensor positions, Tensor token_table,
                       Tensor position_table, Tensor y) = 0;
  /// dtoken_table (V,C) and dposition_table (T,C; may be absent), fp32, accumulate dy (N,C) in ascending
  /// order of tokens, whatever the number of threads.
  virtual void backward(Stream& stream, Tensor dy, Tensor tokens, Tensor positions, Tensor dtoken_table,
                        Tensor dposition_table) = 0;
};

}  // namespace penstock::math
