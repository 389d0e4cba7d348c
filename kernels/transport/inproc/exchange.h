#pragma once

#include "kernels/cpu/stream.h"
#include "kernels/transport/inproc/fabric.h"
#include "kernels/transport/transfer_group.h"

namespace penstock::transport {

/// The work of one exchange, in its stream's worker: offers what is sent, copies what is received as it
/// comes, and returns once all of both is done. DeviceError for sizes that differ, and if the world stops.
void run_exchange(Fabric& fabric, Hub& hub, const Identity& who, const TransferGroup& group,
                  cpu::CpuStream& stream);

/// The same for a collective.
void run_collective(Fabric& fabric, Hub& hub, const Identity& who, const Collective& collective,
                    cpu::CpuStream& stream);

}  // namespace penstock::transport
