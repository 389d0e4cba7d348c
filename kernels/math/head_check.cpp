#include "kernels/math/head_check.h"

#include <fmt/format.h>

#include "kernels/math/check.h"

namespace penstock::math {
namespace {

void check_inputs(const ArgumentCheck& check, const HeadShape& shape, const Tensor& x, const Tensor& w,
                  const Tensor& targets, const Tensor& losses, const Tensor& workspace,
                  size_t workspace_bytes) {
  check.tensor("x", x, {shape.tokens, shape.hidden}, {shape.dtype})
      .tensor("w", w, {shape.rows, shape.hidden}, {shape.dtype})
      .tensor("targets", targets, {shape.tokens}, {DType::i32})
      .tensor("losses", losses, {shape.tokens}, {DType::fp32})
      .workspace(workspace, workspace_bytes);
}

}  // namespace

Support supports_head_sizes(const HeadShape& shape) {
  if (shape.tokens >= 1 && shape.hidden >= 1 && shape.vocab >= 1 && shape.vocab <= shape.rows)
    return Support::yes();
  return Support::no(
      fmt::format("a head needs at least 1 token and channel and 1 to {} tokens of vocabulary, "
                  "not {}, {}, {}",
                  shape.rows, shape.tokens, shape.hidden, shape.vocab));
}

void check_head_loss(const HeadShape& shape, const Tensor& x, const Tensor& w, const Tensor& targets,
                     const Tensor& losses, const Tensor& workspace, size_t workspace_bytes) {
  check_inputs(ArgumentCheck("head loss"), shape, x, w, targets, losses, workspace, workspace_bytes);
}

void check_head_loss_and_backward(const HeadShape& shape, const Tensor& x, const Tensor& w,
                                  const Tensor& targets, const StepScalars* scalars, const Tensor& losses,
                                  const Tensor& dx, const Tensor& dw, const Tensor& workspace,
                                  size_t workspace_bytes) {
  const ArgumentCheck check("head loss_and_backward");
  check_inputs(check, shape, x, w, targets, losses, workspace, workspace_bytes);
  check.tensor("dx", dx, {shape.tokens, shape.hidden}, {shape.dtype})
      .tensor("dw", dw, {shape.rows, shape.hidden}, {DType::fp32})
      .that(scalars != nullptr, "scalars are absent");
}

void check_head_logits(const HeadShape& shape, const Tensor& x, const Tensor& w, const Tensor& logits,
                       const Tensor& workspace, size_t workspace_bytes) {
  const int64_t tokens = logits.shape[0];
  ArgumentCheck("head logits")
      .tensor("x", x, {tokens, shape.hidden}, {shape.dtype})
      .tensor("w", w, {shape.rows, shape.hidden}, {shape.dtype})
      .tensor("logits", logits, {tokens, shape.vocab}, {DType::fp32})
      .that(tokens <= shape.tokens, "more tokens than the plan was made for")
      .workspace(workspace, workspace_bytes);
}

}  // namespace penstock::math
