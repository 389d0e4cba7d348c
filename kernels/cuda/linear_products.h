#pragma once

#include <cstddef>
#include <memory>

#include "kernels/cuda/gemm_product.h"
#include "kernels/math/gemm.h"

namespace penstock::cuda {

/// The products of y (N,O) = x (N,C) · w (O,C)ᵀ + bias and of its gradients, as math::Linear and a head have
/// them.
class LinearProducts {
 public:
  /// y in `out`; everything else as the shape says, dw in fp32. Without gradients only forward is planned.
  LinearProducts(std::shared_ptr<GemmLibrary> library, const math::LinearShape& shape, DType out,
                 bool with_gradients);

  /// Of the product that needs most.
  size_t workspace_bytes() const;
  GemmProduct& forward() { return *forward_; }
  GemmProduct& backward_input() { return *backward_input_; }    ///< dx (N,C) = dy (N,O) · w (O,C)
  GemmProduct& backward_weight() { return *backward_weight_; }  ///< dw (O,C) += dy (N,O)ᵀ · x (N,C)

 private:
  std::shared_ptr<GemmLibrary> library_;  // outlives the products
  std::unique_ptr<GemmProduct> forward_;
  std::unique_ptr<GemmProduct> backward_input_;
  std::unique_ptr<GemmProduct> backward_weight_;
};

}  // namespace penstock::cuda
