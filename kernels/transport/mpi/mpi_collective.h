#pragma once

#include <functional>
#include <string>

#include <mpi.h>

#include "kernels/transport/mpi/mpi_shared.h"

namespace penstock::transport {

/// The work of one collective, in its stream's worker. Long ones begin with a barrier, so that data is known
/// to flow once it has passed. DeviceError for a failed call, and if the world stops.
void run_collective(const MpiShared& shared, const Identity& who, MPI_Comm comm,
                    const Collective& collective);

/// Polls until `request`, of the call named `call`, is complete; DeviceError if it fails or the world stops,
/// beginning with `doing()`. `flowing_bytes`: as for Patience::pause.
void wait_for(MPI_Request request, const char* call, const MpiShared& shared, size_t flowing_bytes,
              const std::function<std::string()>& doing);

}  // namespace penstock::transport
