#include "kernels/math/gemm_check.h"

#include <fmt/format.h>

#include "kernels/math/check.h"

namespace penstock::math {

Support supports_linear_sizes(const LinearShape& shape) {
  if (shape.tokens >= 1 && shape.in >= 1 && shape.out >= 1) return Support::yes();
  return Support::no(fmt::format("a linear layer needs at least 1 token, input and output, not {}, {}, {}",
                                 shape.tokens, shape.in, shape.out));
}

void check_linear_forward(const LinearShape& shape, const Tensor& x, const Tensor& w, const Tensor& bias,
                          const Tensor& y, const Tensor& workspace, size_t workspace_bytes) {
  const auto& [N, C, O, T, has_bias] = shape;
  ArgumentCheck("linear forward")
      .tensor("x", x, {N, C}, {T})
      .tensor("w", w, {O, C}, {T})
      .tensor("y", y, {N, O}, {T})
      .that(static_cast<bool>(bias) == has_bias, "bias must be given exactly when the plan has one")
      .optional("bias", bias, {O}, {DType::fp32})
      .workspace(workspace, workspace_bytes);
}

void check_linear_backward_input(const LinearShape& shape, const Tensor& dy, const Tensor& w,
                                 const Tensor& dx, const Tensor& workspace, size_t workspace_bytes) {
  const auto& [N, C, O, T, has_bias] = shape;
  ArgumentCheck("linear backward_input")
      .tensor("dy", dy, {N, O}, {T})
      .tensor("w", w, {O, C}, {T})
      .tensor("dx", dx, {N, C}, {T})
      .workspace(workspace, workspace_bytes);
}

void check_linear_backward_weight(const LinearShape& shape, const Tensor& dy, const Tensor& x,
                                  const Tensor& dw, const Tensor& workspace, size_t workspace_bytes) {
  const auto& [N, C, O, T, has_bias] = shape;
  ArgumentCheck("linear backward_weight")
      .tensor("dy", dy, {N, O}, {T})
      .tensor("x", x, {N, C}, {T})
      .tensor("dw", dw, {O, C}, {DType::fp32})
      .workspace(workspace, workspace_bytes);
}

void check_linear_backward_bias(const LinearShape& shape, const Tensor& dy, const Tensor& dbias) {
  const auto& [N, C, O, T, has_bias] = shape;
  ArgumentCheck("linear backward_bias")
      .tensor("dy", dy, {N, O}, {T})
      .tensor("dbias", dbias, {O}, {DType::fp32});
}

}  // namespace penstock::math
