#pragma once

#include <memory>

#include "kernels/device/device.h"

namespace penstock::cuda {

/// GPU options.index (choose_gpu) as a device. UsageError for a virtual clock or streams that are not queued:
/// tests order work with the fake runtime, and CUDA_LAUNCH_BLOCKING=1 is CUDA's own inline mode. DeviceError
/// if the GPU cannot be used.
std::unique_ptr<Device> make_cuda_device(DeviceOptions options);

}  // namespace penstock::cuda
