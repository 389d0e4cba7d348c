#include "kernels/transport/mpi/mpi_communicator.h"

#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "kernels/transport/mpi/mpi_collective.h"
#include "kernels/transport/mpi/mpi_exchange.h"

namespace penstock::transport {

MpiCommunicator::MpiCommunicator(std::shared_ptr<const Identity> who, std::shared_ptr<MpiShared> shared,
                                 MPI_Comm comm)
    : Communicator(std::move(who)), shared_(std::move(shared)), comm_(comm) {}

MpiCommunicator::~MpiCommunicator() {
  // Freeing is collective; after an error the peers may never come to it.
  if (!shared_->interruption()->stopped()) MPI_Comm_free(&comm_);
}

void MpiCommunicator::queue_exchange(Stream& stream, TransferGroup group) {
  real_time(stream).enqueue_timed(
      "exchange",
      [this, group = std::move(group), duty = Obligation(who(), shared_->interruption(), "exchange")](
          cpu::CpuStream&) mutable { duty.meet([&] { run_exchange(*shared_, *who(), comm_, group); }); });
}

void MpiCommunicator::queue_collective(Stream& stream, const Collective& collective) {
  const char* const name = name_of(collective.kind);
  real_time(stream).enqueue_timed(
      name, [this, collective, duty = Obligation(who(), shared_->interruption(), name)](
                cpu::CpuStream&) mutable { duty.meet([&] { run_in_turn(collective); }); });
}

void MpiCommunicator::run_in_turn(const Collective& collective) {
  const Interruption& interruption = *shared_->interruption();
  shared_->turns().wait(
      [&] { return next_collective_.load() == collective.sequence || interruption.stopped(); });
  if (next_collective_.load() != collective.sequence) {
    throw DeviceError(fmt::format("{}: {} will not come to pass: {}", who()->label(),
                                  name_of(collective.kind), interruption.reason()));
  }
  run_collective(*shared_, *who(), comm_, collective);
  next_collective_.store(collective.sequence + 1);
  shared_->turns().notify_all();
}

cpu::CpuStream& MpiCommunicator::real_time(Stream& stream) {
  cpu::CpuStream& target = cpu::CpuStream::of(stream);
  if (target.on_virtual_clock()) {
    throw UsageError(fmt::format(
        "stream \"{}\" is on a virtual clock; messages between processes need a real one, or use inproc",
        target.name()));
  }
  return target;
}

}  // namespace penstock::transport
