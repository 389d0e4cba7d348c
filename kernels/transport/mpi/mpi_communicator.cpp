#include "kernels/transport/mpi/mpi_communicator.h"

#include <utility>

#include "kernels/transport/mpi/mpi_collective.h"
#include "kernels/transport/mpi/mpi_exchange.h"

namespace penstock::transport {

MpiCommunicator::MpiCommunicator(std::shared_ptr<const Identity> who, std::shared_ptr<MpiShared> shared,
                                 MPI_Comm comm)
    : ProcessCommunicator(std::move(who), shared->interruption(), shared->turns()),
      shared_(std::move(shared)),
      comm_(comm) {}

MpiCommunicator::~MpiCommunicator() {
  // Freeing is collective; after an error the peers may never come to it.
  if (!shared_->interruption()->stopped()) MPI_Comm_free(&comm_);
}

void MpiCommunicator::run_exchange(const TransferGroup& group) {
  transport::run_exchange(*shared_, *who(), comm_, group);
}

void MpiCommunicator::run_collective(const Collective& collective) {
  transport::run_collective(*shared_, *who(), comm_, collective);
}

}  // namespace penstock::transport
