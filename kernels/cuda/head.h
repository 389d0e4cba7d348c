#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "kernels/math/head.h"

namespace penstock::cuda {

/// The products of a head over n tokens of C channels and V rows of w: x, w, dx and dlogits in the head's
/// type, logits and dw fp32. Planned once; the calls only enqueue.
class HeadProducts {
 public:
  virtual ~HeadProducts() = default;
  virtual size_t workspace_bytes() const = 0;
  /// logits (n,V) = x (n,C) · w (V,C)ᵀ.
  virtual void logits(Stream& stream, Tensor x, Tensor w, Tensor logits, Tensor workspace) = 0;
  /// dx (n,C) = dlogits (n,V) · w (V,C).
  virtual void backward_input(Stream& stream, Tensor dlogits, Tensor w, Tensor dx, Tensor workspace) = 0;
  /// dw (V,C) += dlogits (n,V)ᵀ · x (n,C).
  virtual void backward_weight(Stream& stream, Tensor dlogits, Tensor x, Tensor dw, Tensor workspace) = 0;
};

/// shape.tokens tokens and shape.rows rows. Without gradients only logits() is called.
using MakeHeadProducts =
    std::function<std::unique_ptr<HeadProducts>(const math::HeadShape& shape, bool with_gradients)>;

/// fp32 logits of one block of tokens take at most about this many bytes: few enough to be affordable, enough
/// that every product fills the device.
inline constexpr int64_t head_logits_bytes = int64_t{256} << 20;

/// The head over those products, a block of tokens at a time; blocks have at least 64 tokens, whatever
/// logits_bytes says.
std::unique_ptr<math::Head> make_head(MakeHeadProducts make_products,
                                      int64_t logits_bytes = head_logits_bytes);

}  // namespace penstock::cuda
