#pragma once

#include <memory>

#include "kernels/cuda/gemm_product.h"
#include "kernels/cuda/head.h"

namespace penstock::cuda {

/// A head's products by the library.
MakeHeadProducts make_head_products(std::shared_ptr<GemmLibrary> library);

}  // namespace penstock::cuda
