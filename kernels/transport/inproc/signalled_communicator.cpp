#include "kernels/transport/inproc/signalled_communicator.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::transport {

SignalledCommunicator::SignalledCommunicator(std::shared_ptr<Fabric> fabric, Hub& hub, int rank,
                                             const DeviceAccess& access)
    : Communicator(std::make_shared<const Identity>(Identity{hub.name, hub.members, rank})),
      fabric_(std::move(fabric)),
      hub_(hub.signalled),
      access_(access) {
  numbers_.reserve(TransferGroup::in_place);
  hub_.enter(rank, hub.name, access_);
  fabric_->releaser().add(*this);
}

SignalledCommunicator::~SignalledCommunicator() {
  hub_.leave(rank());
  fabric_->releaser().remove(*this);
  if (fabric_->interruption()->stopped()) hub_.release(rank());  // our own writes are over: this lasts
  hub_.forget(rank());
}

void SignalledCommunicator::queue_exchange(Stream& stream, TransferGroup group) {
  check_running(stream, "exchange");
  numbers_.clear();
  for (const Transfer& transfer : group.all()) {
    std::string wrong;
    numbers_.push_back(
        channel_of(transfer).post(stream, transfer.sends, {transfer.data, transfer.bytes}, &wrong));
    if (!wrong.empty()) {
      const int source = transfer.sends ? rank() : transfer.peer;
      stop(fmt::format("{}: exchange: {} {}", who()->label(), who()->peer_label(source), wrong));
    }
  }
  for (size_t i = 0; i < numbers_.size(); ++i) channel_of(group.all()[i]).wait(stream, numbers_[i]);
}

void SignalledCommunicator::queue_collective(Stream& stream, const Collective& collective) {
  check_running(stream, transport::name_of(collective.kind));
  const std::string wrong = hub_.collective(stream, *who(), collective);
  if (!wrong.empty()) stop(wrong);
}

Channel& SignalledCommunicator::channel_of(const Transfer& transfer) {
  return transfer.sends ? hub_.channel(rank(), transfer.peer) : hub_.channel(transfer.peer, rank());
}

void SignalledCommunicator::check_running(Stream& stream, const char* operation) {
  const std::shared_ptr<StreamFailure>& failure = access_.failure_of(stream);
  {
    const std::lock_guard lock(mutex_);
    if (std::find(streams_.begin(), streams_.end(), failure) == streams_.end()) streams_.push_back(failure);
  }
  if (!fabric_->interruption()->stopped()) return;
  throw DeviceError(fmt::format("{}: {} will not come to pass: {}", who()->label(), operation,
                                fabric_->interruption()->reason()));
}

void SignalledCommunicator::stop(const std::string& reason) {
  fabric_->interruption()->stop(reason);
  throw DeviceError(reason);
}

void SignalledCommunicator::release() {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(told_, true)) {
      for (const std::shared_ptr<StreamFailure>& stream : streams_) {
        stream->fail(name(), fmt::format("{}: its messages will not come to pass: {}", who()->label(),
                                         fabric_->interruption()->reason()));
      }
    }
  }
  hub_.release(rank());
}

}  // namespace penstock::transport
