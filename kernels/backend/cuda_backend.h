#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "kernels/backend/matmul_plans.h"
#include "kernels/device/cuda_section.h"
#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "kernels/transport/device_access.h"

namespace penstock {

/// A GPU as one rank asks for it.
struct CudaRequest {
  int rank = 0;         ///< in the world
  int local_rank = 0;   ///< among those of this host
  int local_ranks = 1;  ///< on this host
  bool share_devices = false;
  CudaAttention attention = CudaAttention::automatic;
  bool tf32 = false;                            ///< fp32 products round their inputs to TF32
  std::function<void(const std::string&)> log;  ///< what was chosen; may be absent
};

struct CudaBackend {
  std::unique_ptr<Device> device;
  math::Math math;
  std::shared_ptr<MatmulPlans> matmul_plans;  ///< of `math`
  transport::DeviceAccess access;             ///< for World::attach
  std::string place;                          ///< for cuda_placement: one line of text
};

/// Whether this build has CUDA (nvcc was found when it was configured).
bool cuda_built_in();
/// Whether this build has it, and there are a driver and a GPU.
bool cuda_present();
/// DeviceError, with what to do, without a driver, with one that is too old, with more ranks than GPUs, and
/// in a build without CUDA.
CudaBackend make_cuda_backend(const CudaRequest& request);
/// "rank → host → GPU", a line a rank, of all ranks' places in rank order. DeviceError if two ranks have the
/// same GPU and were not to share.
std::string cuda_placement(std::span<const std::string> places, bool share_devices);

}  // namespace penstock
