#include <memory>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/head.h"
#include "kernels/cuda/head_products.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing::under_test {

std::unique_ptr<math::Gemm> make_gemm(Device& device) {
  return cuda::make_gemm(cuda::GemmLibrary::create(device, {}));
}

std::unique_ptr<math::Head> make_head(Device& device) {
  return cuda::make_head(cuda::make_head_products(cuda::GemmLibrary::create(device, {})), 1);
}

}  // namespace penstock::testing::under_test
