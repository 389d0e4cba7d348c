#include "kernels/cuda/linear_products.h"

#include <algorithm>
#include <utility>

namespace penstock::cuda {

LinearProducts::LinearProducts(std::shared_ptr<GemmLibrary> library, const math::LinearShape& shape,
                               DType out, bool with_gradients)
    : library_(std::move(library)) {
  const bool tf32 = library_->options().tf32 && shape.dtype == DType::fp32;
  forward_ = library_->plan({.rows = shape.tokens,
                             .columns = shape.out,
                             .depth = shape.in,
                             .in = shape.dtype,
                             .out = out,
                             .b_transposed = true,
                             .bias = shape.bias,
                             .tf32 = tf32});
  if (!with_gradients) return;
  backward_input_ = library_->plan({.rows = shape.tokens,
                                    .columns = shape.in,
                                    .depth = shape.out,
                                    .in = shape.dtype,
                                    .out = shape.dtype,
                                    .tf32 = tf32});
  backward_weight_ = library_->plan({.rows = shape.out,
                                     .columns = shape.in,
                                     .depth = shape.tokens,
                                     .in = shape.dtype,
                                     .out = DType::fp32,
                                     .a_transposed = true,
                                     .accumulate = true,
                                     .tf32 = tf32});
}

size_t LinearProducts::workspace_bytes() const {
  size_t most = forward_->workspace_bytes();
  for (const auto* product : {backward_input_.get(), backward_weight_.get()}) {
    if (product != nullptr) most = std::max(most, product->workspace_bytes());
  }
  return most;
}

}  // namespace penstock::cuda
