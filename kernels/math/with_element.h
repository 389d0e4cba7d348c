#pragma once

#include "kernels/device/bfloat16.h"
#include "kernels/device/dtype.h"
#include "kernels/device/error.h"

namespace penstock::math {

/// Calls body(float{}) or body(bfloat16{}): the body's type parameter is the element type. UsageError for
/// other types, which CPU and CUDA kernels do not compute on.
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
      throw UsageError("CPU and CUDA kernels compute on fp32 and bf16 only");
  }
}

}  // namespace penstock::math
