#pragma once

#include <memory>

#include <mpi.h>

#include "kernels/transport/mpi/mpi_shared.h"
#include "kernels/transport/processes/process_communicator.h"

namespace penstock::transport {

class MpiCommunicator final : public ProcessCommunicator {
 public:
  /// Takes over `comm`.
  MpiCommunicator(std::shared_ptr<const Identity> who, std::shared_ptr<MpiShared> shared, MPI_Comm comm);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

 private:
  void run_exchange(const TransferGroup& group) override;
  void run_collective(const Collective& collective) override;

  std::shared_ptr<MpiShared> shared_;
  MPI_Comm comm_;
};

}  // namespace penstock::transport
