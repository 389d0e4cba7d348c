#pragma once

#include <cstdint>
#include <memory>

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "kernels/math/support.h"

namespace penstock::math {

/// One matmul call site: N tokens, C inputs, O outputs; x, w, y in `dtype` (fp32, bf16 or fp16), sums in
/// fp32.
struct LinearShape {
  int64_t tokens = 0;
  int64_t in = 0;
  int64_t out = 0;
  DType dtype = DType::fp32;
  bool bias = false;
};

/// The plan of one call site (descriptors, algorithms, primitives), made once. The calls only enqueue.
/// `workspace`: u8, at least workspace_bytes(), not shared with other work that may run at the same time.
class Linear {
 public:
  virtual ~Linear() = default;
  virtual const LinearShape& shape() const = 0;
  virtual size_t workspace_bytes() const = 0;

  /// y (N,O) = x (N,C) · w (O,C)ᵀ + bias (O). bias: fp32, absent when shape().bias is false.
  virtual void forward(Stream& stream, Tensor x, Tensor w, Tensor bias, Tensor y, Tensor workspace) = 0;
  /// dx (N,C) = dy (N,O) · w (O,C).
  virtual void backward_input(Stream& stream, Tensor dy, Tensor w, Tensor dx, Tensor workspace) = 0;
  /// dw (O,C) += dy (N,O)ᵀ · x (N,C). dw: fp32.
  virtual void backward_weight(Stream& stream, Tensor dy, Tensor x, Tensor dw, Tensor workspace) = 0;
  /// dw (O,C) = dy (N,O)ᵀ · x (N,C), whatever it was. dw: fp32.
  virtual void first_backward_weight(Stream& stream, Tensor dy, Tensor x, Tensor dw, Tensor workspace) {
    stream.fill_zero(dw.data, dw.bytes());
    backward_weight(stream, dy, x, dw, workspace);
  }
  /// dbias (O) += Σ over tokens of dy (N,O), tokens ascending. dbias: fp32. Part of the input half (contract
  /// C1 b).
  virtual void backward_bias(Stream& stream, Tensor dy, Tensor dbias) = 0;
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual Support supports(const LinearShape& shape) const = 0;
  /// Whether first_backward_weight() does without zeros.
  virtual bool overwrites() const { return false; }
  /// DeviceError with the reason if the shape is not supported.
  virtual std::unique_ptr<Linear> plan_linear(const LinearShape& shape) = 0;
  /// The same for few tokens, whose time is that of reading w: for text that is generated token by token.
  /// Only forward() is called. On the processor a row's bits do not depend on how many rows there are.
  virtual std::unique_ptr<Linear> plan_few_rows(const LinearShape& shape) { return plan_linear(shape); }
};

}  // namespace penstock::math
