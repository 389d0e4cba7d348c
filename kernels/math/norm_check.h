#pragma once

#include <cstdint>

#include "kernels/device/tensor.h"

/// Argument checks of the Norm family, shared by its implementations: UsageError with names, types and
/// shapes. fp64 tensors pass (the reference computes on them): then weights and statistics are fp64 too.
namespace penstock::math {

/// N and C of one call.
struct NormSizes {
  int64_t tokens = 0;
  int64_t channels = 0;
};

NormSizes check_layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                                   const Tensor& mean, const Tensor& rstd);
NormSizes check_layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                    const Tensor& mean, const Tensor& rstd, const Tensor& dresidual,
                                    const Tensor& dx, const Tensor& dweight, const Tensor& dbias);
NormSizes check_rms_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& rstd);
NormSizes check_rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                  const Tensor& dresidual, const Tensor& dx, const Tensor& dweight);

/// N, H, G, D of one call; a row has (H + 2 G) D values.
struct HeadNormSizes {
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t row() const { return (heads + 2 * kv_heads) * head_dim; }
};

HeadNormSizes check_head_norm_forward(const Tensor& qkv, const Tensor& weight_q, const Tensor& weight_k,
                                      int64_t heads, int64_t kv_heads, const Tensor& out, const Tensor& rstd);
HeadNormSizes check_head_norm_backward(const Tensor& dqkv, const Tensor& qkv, const Tensor& weight_q,
                                       const Tensor& weight_k, const Tensor& rstd, int64_t heads,
                                       int64_t kv_heads, const Tensor& dweight_q, const Tensor& dweight_k);

}  // namespace penstock::math
