#include "kernels/transport/inproc/inproc_communicator.h"

#include <utility>

#include "kernels/cpu/stream.h"
#include "kernels/transport/inproc/exchange.h"

namespace penstock::transport {

InprocCommunicator::InprocCommunicator(std::shared_ptr<Fabric> fabric, Hub& hub, int rank)
    : Communicator(std::make_shared<const Identity>(Identity{hub.name, hub.members, rank})),
      fabric_(std::move(fabric)),
      hub_(hub) {}

void InprocCommunicator::queue_exchange(Stream& stream, TransferGroup group) {
  cpu::CpuStream& target = cpu::CpuStream::of(stream);
  fabric_->check_clock(target.name(), target.on_virtual_clock());
  // The task names no more than it needs: fabric and hub outlive it, as this communicator does.
  target.enqueue_timed(
      "exchange",
      [&fabric = *fabric_, &hub = hub_, &who = *this->who(), group = std::move(group),
       duty = Obligation(this->who(), fabric_->interruption(), "exchange")](cpu::CpuStream& self) mutable {
        duty.meet([&] { run_exchange(fabric, hub, who, group, self); });
      });
}

void InprocCommunicator::queue_collective(Stream& stream, const Collective& collective) {
  cpu::CpuStream& target = cpu::CpuStream::of(stream);
  fabric_->check_clock(target.name(), target.on_virtual_clock());
  const char* const name = name_of(collective.kind);
  target.enqueue_timed(
      name, [&fabric = *fabric_, &hub = hub_, &who = *this->who(), collective,
             duty = Obligation(this->who(), fabric_->interruption(), name)](cpu::CpuStream& self) mutable {
        duty.meet([&] { run_collective(fabric, hub, who, collective, self); });
      });
}

}  // namespace penstock::transport
