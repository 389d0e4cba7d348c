#pragma once

#include "kernels/device/bfloat16.h"
#include "kernels/device/dtype.h"
#include "kernels/device/error.h"
#include "kernels/device/float16.h"

namespace penstock::math {

/// Calls body(float{}), body(bfloat16{}) or body(float16{}): the body's type parameter is the element type.
/// UsageError for other types, which CPU and CUDA kernels do not compute on.
template <class Body>
void with_element(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::fp32:
      body(float{});
      return;
    case DType::bf16:
      body(bfloat16{});
      return;
    case DType::fp16:
      body(float16{});
      return;
    default:
      throw UsageError("CPU and CUDA kernels compute on fp32, bf16 and fp16 only");
  }
}

}  // namespace penstock::math
