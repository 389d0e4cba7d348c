#pragma once

#include <cstddef>
#include <memory>

#include "kernels/device/device.h"
#include "kernels/transport/world.h"

/// What the transport contract needs of the kind of device that it is run on; a binary links it with one
/// definition.
namespace penstock::transport {

std::unique_ptr<Device> make_rank_device(DeviceOptions options);
/// Tells the world of the rank's device, where that is needed.
void attach(World& world, Device& device);
/// Memory that streams copy from and to, and the host reads when they are done.
std::unique_ptr<std::byte[], void (*)(std::byte*)> make_memory(size_t bytes);

}  // namespace penstock::transport
