#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <mpi.h>

#include "kernels/cpu/stream.h"
#include "kernels/transport/communicator.h"
#include "kernels/transport/mpi/mpi_shared.h"

namespace penstock::transport {

class MpiCommunicator final : public Communicator {
 public:
  /// Takes over `comm`.
  MpiCommunicator(std::shared_ptr<const Identity> who, std::shared_ptr<MpiShared> shared, MPI_Comm comm);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

 private:
  void queue_exchange(Stream& stream, TransferGroup group) override;
  void queue_collective(Stream& stream, const Collective& collective) override;
  void run_in_turn(const Collective& collective);
  static cpu::CpuStream& real_time(Stream& stream);

  std::shared_ptr<MpiShared> shared_;
  MPI_Comm comm_;
  /// MPI matches collectives by the order of the calls, so that order is made the order of enqueueing.
  std::atomic<uint64_t> next_collective_{0};
};

}  // namespace penstock::transport
