#pragma once

#include <memory>

#include "kernels/device/device.h"

namespace penstock::cpu {

/// The processor as a device. UsageError for less than one thread or a device index other than 0.
std::unique_ptr<Device> make_cpu_device(DeviceOptions options);

}  // namespace penstock::cpu
