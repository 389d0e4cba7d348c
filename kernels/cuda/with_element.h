#pragma once

#include "kernels/device/bfloat16.h"
#include "kernels/device/dtype.h"
#include "kernels/device/error.h"
#include "kernels/math/support.h"

namespace penstock::cuda {

/// Calls body(float{}) or body(bfloat16{}): the body's type parameter is the element type. UsageError for
/// other types, which the CUDA kernels do not compute on.
template <class Body>
void with_element(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::fp32:
      body(float{});
      return;
    case DType::bf16:
      body(bfloat16{});
      return;
    default:
      throw UsageError("CUDA kernels compute on fp32 and bf16 only");
  }
}

inline math::Support supports_element(DType dtype) {
  if (dtype == DType::fp32 || dtype == DType::bf16) return math::Support::yes();
  return math::Support::no("the CUDA kernels take fp32 and bf16");
}

}  // namespace penstock::cuda
