#include "kernels/math/optimizer_check.h"

#include "kernels/math/check.h"

namespace penstock::math {

void check_adamw(const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
                 const Tensor& moment2, const Tensor& copy, const StepScalars* scalars) {
  const Shape& shape = parameter.shape;
  ArgumentCheck("adamw")
      .tensor("parameter", parameter, shape, {DType::fp32})
      .tensor("gradient", gradient, shape, {DType::fp32})
      .tensor("moment1", moment1, shape, {DType::fp32})
      .tensor("moment2", moment2, shape, {DType::fp32})
      .optional("copy", copy, shape, {DType::bf16, DType::fp16})
      .that(scalars != nullptr, "scalars are absent");
}

}  // namespace penstock::math
