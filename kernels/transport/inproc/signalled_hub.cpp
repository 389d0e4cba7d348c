#include "kernels/transport/inproc/signalled_hub.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "kernels/transport/inproc/collective_match.h"

namespace penstock::transport {

SignalledHub::SignalledHub(size_t ranks)
    : ranks_(ranks), channels_(ranks * ranks), lanes_(ranks), inputs_(ranks), outputs_(ranks) {}

void SignalledHub::enter(int rank, const std::string& name, const DeviceAccess& access) {
  for (size_t source = 0; source < ranks_; ++source) {
    channels_[source * ranks_ + static_cast<size_t>(rank)] =
        std::make_unique<Channel>(*access.device, fmt::format("{} {} to {}", name, source, rank));
  }
  CollectiveLane lane;
  lane.arrived.signal = access.device->create_signal(fmt::format("{}: rank {} arrived", name, rank));
  lane.worked = access.device->create_signal(fmt::format("{}: rank {} worked", name, rank));
  lane.stream = access.device->create_stream(fmt::format("{} collectives", name), StreamUse::transfer);
  lane.access = access;
  const std::lock_guard lock(mutex_);
  lanes_[static_cast<size_t>(rank)] = std::move(lane);
}

void SignalledHub::reach_peers(int rank) {
  const DeviceAccess& ours = lanes_[static_cast<size_t>(rank)].access;
  for (const CollectiveLane& peer : lanes_) ours.reach(*peer.access.device);
}

void SignalledHub::leave(int rank) {
  for (size_t source = 0; source < ranks_; ++source) channel(static_cast<int>(source), rank).close();
  std::unique_ptr<Stream> stream;
  {
    const std::lock_guard lock(mutex_);
    stream = std::move(lanes_[static_cast<size_t>(rank)].stream);
  }
  stream.reset();
}

void SignalledHub::forget(int rank) {
  for (size_t source = 0; source < ranks_; ++source) channel(static_cast<int>(source), rank).forget();
  const std::lock_guard lock(mutex_);
  lanes_[static_cast<size_t>(rank)] = {};
}

void SignalledHub::release(int rank) {
  for (size_t source = 0; source < ranks_; ++source) channel(static_cast<int>(source), rank).release();
  const CollectiveLane& lane = lanes_[static_cast<size_t>(rank)];
  lane.arrived.signal->release();
  lane.worked->release();
}

std::string SignalledHub::collective(Stream& stream, const Identity& who, const Collective& collective) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = collective.sequence + 1;
  for (const CollectiveLane& lane : lanes_) {
    if (!lane.stream) throw DeviceError(fmt::format("{}: a rank has left the communicator", who.label()));
  }
  lanes_[static_cast<size_t>(who.rank)].arrived.write(stream, number);
  Meeting& ours = meeting(collective.sequence);
  ours.calls[static_cast<size_t>(who.rank)] = collective;
  if (++ours.arrived == ranks_) {
    ours.arrived = 0;  // free again
    const std::string wrong = mismatch(who, ours.calls);
    if (!wrong.empty()) return wrong;
    enqueue_work(ours);
  }
  // Also for those who only read ours: they must be done before we go on.
  for (const CollectiveLane& lane : lanes_) stream.wait(*lane.worked, number);
  return {};
}

SignalledHub::Meeting& SignalledHub::meeting(uint64_t sequence) {
  Meeting* free = nullptr;
  for (Meeting& each : meetings_) {
    if (each.arrived > 0 && each.sequence == sequence) return each;
    if (each.arrived == 0) free = &each;
  }
  if (free == nullptr) {
    meetings_.push_back({0, 0, std::vector<Collective>(ranks_)});
    free = &meetings_.back();
  }
  free->sequence = sequence;
  return *free;
}

void SignalledHub::enqueue_work(const Meeting& meeting) {
  const uint64_t number = meeting.sequence + 1;
  for (size_t rank = 0; rank < ranks_; ++rank) {
    inputs_[rank] = meeting.calls[rank].input.data;
    outputs_[rank] = meeting.calls[rank].output.data;
  }
  for (size_t rank = 0; rank < ranks_; ++rank) {
    Stream& lane = *lanes_[rank].stream;
    for (const CollectiveLane& each : lanes_) lane.wait(*each.arrived.signal, number);
    work(meeting, rank);
    lane.signal(*lanes_[rank].worked, number);
  }
}

// Each element is read and written by one rank only, so that in-place operations need no second meeting.
void SignalledHub::work(const Meeting& meeting, size_t rank) {
  const CollectiveLane& lane = lanes_[rank];
  const Collective& ours = meeting.calls[rank];
  const auto place = static_cast<int64_t>(rank);
  const auto ranks = static_cast<int64_t>(ranks_);
  const auto copy = [&](void* to, const void* from, size_t bytes) {
    if (to != from) lane.stream->copy(to, from, bytes);
  };
  Combination call;
  call.dtype = ours.input.dtype;
  call.reduction = ours.reduction;
  call.inputs = inputs_;
  switch (ours.kind) {
    case CollectiveKind::all_reduce: {  // our slice of every rank's tensor
      const int64_t elements = ours.input.elements();
      call.from = call.to = elements * place / ranks;
      call.count = elements * (place + 1) / ranks - call.from;
      call.outputs = outputs_;
      lane.access.combine(*lane.stream, call);
      return;
    }
    case CollectiveKind::reduce_scatter: {  // our block of every rank's input
      call.count = ours.output.elements();
      call.from = call.count * place;
      call.outputs = {&outputs_[rank], 1};
      lane.access.combine(*lane.stream, call);
      return;
    }
    case CollectiveKind::all_gather: {
      const size_t bytes = ours.input.bytes();
      for (size_t i = 0; i < ranks_; ++i) copy(block(ours.output.data, i, bytes), inputs_[i], bytes);
      return;
    }
    case CollectiveKind::broadcast:
      copy(ours.output.data, inputs_[static_cast<size_t>(ours.root)], ours.output.bytes());
      return;
    case CollectiveKind::barrier:
      return;
  }
}

}  // namespace penstock::transport
