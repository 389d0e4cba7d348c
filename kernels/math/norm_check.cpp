#include "kernels/math/norm_check.h"

#include <fmt/format.h>

#include "kernels/math/check.h"

namespace penstock::math {
namespace {

DType statistics_dtype(const Tensor& x) {
  return x.dtype == DType::fp64 ? DType::fp64 : DType::fp32;
}

/// x must be (N,C); the tensors of the call follow from it.
NormSizes sizes_of(const ArgumentCheck& check, const Tensor& x) {
  check.present("x", x, {DType::fp32, DType::bf16, DType::fp16, DType::fp64});
  if (x.shape.rank != 2 || x.shape[1] < 1) {
    check.fail(fmt::format("x is {}; expected (N, C) with C at least 1", to_string(x.shape)));
  }
  return {x.shape[0], x.shape[1]};
}

HeadNormSizes head_sizes_of(const ArgumentCheck& check, const Tensor& qkv, int64_t heads, int64_t kv_heads,
                            const Tensor& weight_q, const Tensor& weight_k) {
  check.present("qkv", qkv, {DType::fp32, DType::bf16, DType::fp16, DType::fp64});
  if (heads < 1 || kv_heads < 1) {
    check.fail(fmt::format("heads = {}, kv_heads = {}; expected at least 1 of each", heads, kv_heads));
  }
  const int64_t slices = heads + 2 * kv_heads;
  if (qkv.shape.rank != 2 || qkv.shape[1] < slices || qkv.shape[1] % slices != 0) {
    check.fail(
        fmt::format("qkv is {}; expected (N, ({} + 2 · {}) D)", to_string(qkv.shape), heads, kv_heads));
  }
  const HeadNormSizes sizes{qkv.shape[0], heads, kv_heads, qkv.shape[1] / slices};
  const DType statistics = statistics_dtype(qkv);
  check.tensor("weight_q", weight_q, {sizes.head_dim}, {statistics});
  check.tensor("weight_k", weight_k, {sizes.head_dim}, {statistics});
  return sizes;
}

}  // namespace

NormSizes check_layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                                   const Tensor& mean, const Tensor& rstd) {
  const ArgumentCheck check("layer_norm_forward");
  const NormSizes sizes = sizes_of(check, x);
  const DType statistics = statistics_dtype(x);
  check.tensor("weight", weight, {sizes.channels}, {statistics})
      .tensor("bias", bias, {sizes.channels}, {statistics})
      .tensor("y", y, x.shape, {x.dtype})
      .tensor("mean", mean, {sizes.tokens}, {statistics})
      .tensor("rstd", rstd, {sizes.tokens}, {statistics});
  return sizes;
}

NormSizes check_layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                    const Tensor& mean, const Tensor& rstd, const Tensor& dresidual,
                                    const Tensor& dx, const Tensor& dweight, const Tensor& dbias) {
  const ArgumentCheck check("layer_norm_backward");
  const NormSizes sizes = sizes_of(check, x);
  const DType statistics = statistics_dtype(x);
  check.tensor("dy", dy, x.shape, {x.dtype})
      .tensor("weight", weight, {sizes.channels}, {statistics})
      .tensor("mean", mean, {sizes.tokens}, {statistics})
      .tensor("rstd", rstd, {sizes.tokens}, {statistics})
      .optional("dresidual", dresidual, x.shape, {x.dtype})
      .tensor("dx", dx, x.shape, {x.dtype})
      .tensor("dweight", dweight, {sizes.channels}, {statistics})
      .tensor("dbias", dbias, {sizes.channels}, {statistics});
  return sizes;
}

NormSizes check_rms_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& rstd) {
  const ArgumentCheck check("rms_norm_forward");
  const NormSizes sizes = sizes_of(check, x);
  const DType statistics = statistics_dtype(x);
  check.tensor("weight", weight, {sizes.channels}, {statistics})
      .tensor("y", y, x.shape, {x.dtype})
      .tensor("rstd", rstd, {sizes.tokens}, {statistics});
  return sizes;
}

NormSizes check_rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                  const Tensor& dresidual, const Tensor& dx, const Tensor& dweight) {
  const ArgumentCheck check("rms_norm_backward");
  const NormSizes sizes = sizes_of(check, x);
  const DType statistics = statistics_dtype(x);
  check.tensor("dy", dy, x.shape, {x.dtype})
      .tensor("weight", weight, {sizes.channels}, {statistics})
      .tensor("rstd", rstd, {sizes.tokens}, {statistics})
      .optional("dresidual", dresidual, x.shape, {x.dtype})
      .tensor("dx", dx, x.shape, {x.dtype})
      .tensor("dweight", dweight, {sizes.channels}, {statistics});
  return sizes;
}

HeadNormSizes check_head_norm_forward(const Tensor& qkv, const Tensor& weight_q, const Tensor& weight_k,
                                      int64_t heads, int64_t kv_heads, const Tensor& out,
                                      const Tensor& rstd) {
  const ArgumentCheck check("head_norm_forward");
  const HeadNormSizes sizes = head_sizes_of(check, qkv, heads, kv_heads, weight_q, weight_k);
  check.tensor("out", out, qkv.shape, {qkv.dtype})
      .tensor("rstd", rstd, {sizes.tokens, heads + kv_heads}, {statistics_dtype(qkv)})
      .that(out.data != qkv.data, "out is qkv's memory; expected memory of its own");
  return sizes;
}

HeadNormSizes check_head_norm_backward(const Tensor& dqkv, const Tensor& qkv, const Tensor& weight_q,
                                       const Tensor& weight_k, const Tensor& rstd, int64_t heads,
                                       int64_t kv_heads, const Tensor& dweight_q, const Tensor& dweight_k) {
  const ArgumentCheck check("head_norm_backward");
  const HeadNormSizes sizes = head_sizes_of(check, qkv, heads, kv_heads, weight_q, weight_k);
  const DType statistics = statistics_dtype(qkv);
  check.tensor("dqkv", dqkv, qkv.shape, {qkv.dtype})
      .tensor("rstd", rstd, {sizes.tokens, heads + kv_heads}, {statistics})
      .tensor("dweight_q", dweight_q, {sizes.head_dim}, {statistics})
      .tensor("dweight_k", dweight_k, {sizes.head_dim}, {statistics});
  return sizes;
}

}  // namespace penstock::math
