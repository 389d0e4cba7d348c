#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/gemm.h"

namespace penstock::cpu {

/// The processor's kernels. The device must outlive what is made for it.
std::unique_ptr<math::Gemm> make_gemm(Device& device);

/// Whether the processor multiplies matrices of this type; if not, why.
math::Support supports_products(DType dtype);

}  // namespace penstock::cpu
