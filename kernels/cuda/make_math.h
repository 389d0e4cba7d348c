#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kernels/cuda/gemm_product.h"
#include "kernels/device/cuda_section.h"
#include "kernels/device/device.h"
#include "kernels/math/math.h"

namespace penstock::cuda {

struct MathOptions {
  CudaAttention attention = CudaAttention::automatic;
  std::function<void(const std::string&)> log = {};  ///< which attention is used; may be absent
};

/// Every family. Matrix products, the head's too, are planned in `library`: GemmLibrary::create(device, …).
/// The device must outlive it, and is the calling thread's current one.
math::Math make_math(Device& device, const std::shared_ptr<GemmLibrary>& library, const MathOptions& options);

}  // namespace penstock::cuda
