#pragma once

#include <fmt/format.h>

#include "kernels/device/dtype.h"
#include "kernels/math/support.h"
#include "kernels/math/with_element.h"

namespace penstock::cuda {

using math::with_element;

inline math::Support supports_element(DType dtype) {
  if (dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16) return math::Support::yes();
  return math::Support::no(fmt::format("the CUDA kernels take fp32, bf16 and fp16, not {}", name_of(dtype)));
}

}  // namespace penstock::cuda
