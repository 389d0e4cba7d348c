#pragma once

#include "kernels/device/device.h"
#include "kernels/transport/device_access.h"

namespace penstock::cuda {

/// What ranks that share a process need to exchange data between their GPUs, or on one.
transport::DeviceAccess access_to(Device& device);

}  // namespace penstock::cuda
