#include "kernels/transport/processes/process_communicator.h"

#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::transport {

ProcessCommunicator::ProcessCommunicator(std::shared_ptr<const Identity> who,
                                         std::shared_ptr<Interruption> interruption, cpu::WaitPoint& turns)
    : Communicator(std::move(who)), interruption_(std::move(interruption)), turns_(turns) {}

void ProcessCommunicator::queue_exchange(Stream& stream, TransferGroup group) {
  real_time(stream).enqueue_timed(
      "exchange", [this, group = std::move(group), duty = Obligation(who(), interruption_, "exchange")](
                      cpu::CpuStream&) mutable { duty.meet([&] { run_exchange(group); }); });
}

void ProcessCommunicator::queue_collective(Stream& stream, const Collective& collective) {
  const char* const name = name_of(collective.kind);
  real_time(stream).enqueue_timed(
      name, [this, collective, duty = Obligation(who(), interruption_, name)](cpu::CpuStream&) mutable {
        duty.meet([&] { run_in_turn(collective); });
      });
}

void ProcessCommunicator::run_in_turn(const Collective& collective) {
  turns_.wait([&] { return next_collective_.load() == collective.sequence || interruption_->stopped(); });
  if (next_collective_.load() != collective.sequence) {
    throw DeviceError(fmt::format("{}: {} will not come to pass: {}", who()->label(),
                                  name_of(collective.kind), interruption_->reason()));
  }
  run_collective(collective);
  next_collective_.store(collective.sequence + 1);
  turns_.notify_all();
}

cpu::CpuStream& ProcessCommunicator::real_time(Stream& stream) {
  cpu::CpuStream& target = cpu::CpuStream::of(stream);
  if (target.on_virtual_clock()) {
    throw UsageError(fmt::format(
        "stream \"{}\" is on a virtual clock; messages between processes need a real one, or use inproc",
        target.name()));
  }
  return target;
}

}  // namespace penstock::transport
