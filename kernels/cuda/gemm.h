#pragma once

#include <memory>

#include "kernels/cuda/gemm_product.h"
#include "kernels/math/gemm.h"

namespace penstock::cuda {

/// Linear layers over the library's products. Several families share one library.
std::unique_ptr<math::Gemm> make_gemm(std::shared_ptr<GemmLibrary> library);

}  // namespace penstock::cuda
