#include "kernels/transport/tcp/tcp_communicator.h"

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "kernels/transport/reduce_elements.h"

namespace penstock::transport {

TcpCommunicator::TcpCommunicator(std::shared_ptr<const Identity> who, std::shared_ptr<TcpHub> hub,
                                 uint32_t channel)
    : ProcessCommunicator(std::move(who), hub->interruption(), hub->turns()),
      hub_(std::move(hub)),
      channel_(channel) {}

void TcpCommunicator::run_exchange(const TransferGroup& group) {
  std::array<TcpTransfer, TransferGroup::in_place> few;
  std::vector<TcpTransfer> many;
  const std::span<const Transfer> all = group.all();
  if (all.size() > few.size()) many.resize(all.size());
  const std::span<TcpTransfer> transfers =
      all.size() > few.size() ? std::span(many) : std::span(few).first(all.size());
  for (size_t i = 0; i < all.size(); ++i)
    transfers[i] = {all[i].data, all[i].bytes, channel_, all[i].sequence, who()->world_rank(all[i].peer),
                    all[i].sends};
  const std::optional<TcpHub::Failure> failure = hub_->run(transfers);
  if (!failure) return;
  const Transfer& transfer = all[failure->index];
  throw DeviceError(fmt::format(
      "{}: exchange: {} of {} bytes {} {}: {}", who()->label(), transfer.sends ? "send" : "receive",
      transfer.bytes, transfer.sends ? "to" : "from", who()->peer_label(transfer.peer), failure->reason));
}

void TcpCommunicator::run_collective(const Collective& collective) {
  switch (collective.kind) {
    case CollectiveKind::all_reduce:
      return all_reduce(collective);
    case CollectiveKind::reduce_scatter: {
      const int64_t elements = collective.output.elements();
      return reduce(collective, elements * rank(), elements * (rank() + 1), collective.output.data);
    }
    case CollectiveKind::all_gather:
      return all_gather(collective);
    case CollectiveKind::broadcast:
      return broadcast(collective);
    case CollectiveKind::barrier:
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank()) continue;
        send(peer, nullptr, 0);
        receive(peer, nullptr, 0);
      }
      return round(collective);
  }
}

void TcpCommunicator::send(int peer, const void* data, size_t bytes) {
  // Sends only read.
  auto* const memory = static_cast<std::byte*>(const_cast<void*>(data));
  transfers_.push_back({memory, bytes, channel_ + 1, rounds_, who()->world_rank(peer), true});
}

void TcpCommunicator::receive(int peer, void* data, size_t bytes) {
  transfers_.push_back(
      {static_cast<std::byte*>(data), bytes, channel_ + 1, rounds_, who()->world_rank(peer), false});
}

void TcpCommunicator::round(const Collective& collective) {
  const std::optional<TcpHub::Failure> failure = hub_->run(transfers_);
  ++rounds_;
  if (failure) {
    throw DeviceError(fmt::format("{}: {} of {} elements with world rank {}: {}", who()->label(),
                                  penstock::transport::name_of(collective.kind), collective.input.elements(),
                                  transfers_[failure->index].peer, failure->reason));
  }
  transfers_.clear();
}

/// output = the reduction of elements [begin, end) of every rank's input; each rank has another range, those
/// of all ranks in rank order cut all_reduce's tensor or reduce_scatter's.
void TcpCommunicator::reduce(const Collective& collective, int64_t begin, int64_t end, void* output) {
  const size_t width = size_of(collective.input.dtype);
  const auto ranks = static_cast<size_t>(size());
  const size_t mine = static_cast<size_t>(end - begin) * width;
  if (others_.size() < mine * ranks) others_.resize(mine * ranks);
  const auto* const input = static_cast<const std::byte*>(collective.input.data);
  const int64_t elements = collective.input.elements();
  std::vector<const void*> inputs(ranks);
  for (int peer = 0; peer < size(); ++peer) {
    const auto place = static_cast<size_t>(peer);
    if (peer == rank()) {
      inputs[place] = input + static_cast<size_t>(begin) * width;
      continue;
    }
    const int64_t their_begin = elements * peer / size();
    const int64_t their_end = elements * (peer + 1) / size();
    send(peer, input + static_cast<size_t>(their_begin) * width,
         static_cast<size_t>(their_end - their_begin) * width);
    inputs[place] = others_.data() + place * mine;
    receive(peer, others_.data() + place * mine, mine);
  }
  round(collective);
  reduce_elements(collective.input.dtype, collective.reduction, inputs, 0, {&output, 1}, 0, end - begin);
}

void TcpCommunicator::all_reduce(const Collective& collective) {
  const int64_t elements = collective.input.elements();
  const size_t width = size_of(collective.input.dtype);
  const auto part = [&](int rank) { return elements * rank / size(); };
  auto* const output = static_cast<std::byte*>(collective.output.data);
  const auto at = [&](int rank) { return output + static_cast<size_t>(part(rank)) * width; };
  const auto bytes = [&](int rank) { return static_cast<size_t>(part(rank + 1) - part(rank)) * width; };
  reduce(collective, part(rank()), part(rank() + 1), at(rank()));
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    send(peer, at(rank()), bytes(rank()));
    receive(peer, at(peer), bytes(peer));
  }
  round(collective);
}

void TcpCommunicator::all_gather(const Collective& collective) {
  const size_t bytes = collective.input.bytes();
  auto* const output = static_cast<std::byte*>(collective.output.data);
  for (int peer = 0; peer < size(); ++peer) {
    std::byte* const theirs = output + static_cast<size_t>(peer) * bytes;
    if (peer != rank()) {
      send(peer, collective.input.data, bytes);
      receive(peer, theirs, bytes);
    } else if (theirs != collective.input.data && bytes > 0) {
      std::memcpy(theirs, collective.input.data, bytes);
    }
  }
  round(collective);
}

void TcpCommunicator::broadcast(const Collective& collective) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    if (rank() == collective.root) send(peer, collective.input.data, collective.input.bytes());
    if (peer == collective.root) receive(peer, collective.output.data, collective.output.bytes());
  }
  round(collective);
}

}  // namespace penstock::transport
