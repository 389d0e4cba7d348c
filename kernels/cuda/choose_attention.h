#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kernels/cuda/cudnn_attention.h"
#include "kernels/device/cuda_section.h"
#include "kernels/math/attention.h"

namespace penstock::cuda {

/// `cuda.attention`. native: `native` alone. cudnn: cuDNN, where it supports the shape; DeviceError where it
/// is absent. automatic: cuDNN where it is there and supports the shape, else native.
/// Calls with document borders go to native in any case. What is chosen depends on build, library, device and
/// shape alone, so that every rank of a run chooses alike; `log`: one line a plan, may be absent.
std::unique_ptr<math::Attention> choose_attention(CudaAttention choice, OptionalAttention cudnn,
                                                  std::unique_ptr<math::Attention> native,
                                                  std::function<void(const std::string&)> log);

}  // namespace penstock::cuda
