#pragma once

#include <mpi.h>

#include "kernels/transport/mpi/mpi_shared.h"
#include "kernels/transport/transfer_group.h"

namespace penstock::transport {

/// The work of one exchange, in its stream's worker: posts all receives and sends, and polls until all are
/// complete. DeviceError for a failed call, for sizes that differ, and if the world stops.
///
/// A message is a head and pieces of the rest. The head of a long message is sent synchronously: once it is
/// complete, both sides know that the other is there, and that data flows.
void run_exchange(const MpiShared& shared, const Identity& who, MPI_Comm comm, const TransferGroup& group);

}  // namespace penstock::transport
