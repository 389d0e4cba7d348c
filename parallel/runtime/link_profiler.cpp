#include "parallel/runtime/link_profiler.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "parallel/runtime/unit_profiler.h"

namespace penstock::runtime {

using planner::MeasuredLink;
using transport::receive_from;
using transport::send_to;

namespace {

constexpr int64_t small_bytes = 8;
constexpr int warm_up = 3;
constexpr int latency_repetitions = 50;

// Of one message towards us.
struct Incoming {
  double latency = 0;
  double both = 0;   // seconds
  double alone = 0;  // seconds
};

// Memory for what is sent and what is received.
struct Message {
  Tensor out;
  Tensor in;
};

// The device's, as that of boundaries is: two messages of each size.
class MessageMemory {
 public:
  MessageMemory(Device& device, int64_t bytes)
      : device_(device),
        arena_(device.create_arena(ArenaTag::communication, 4 * aligned(static_cast<size_t>(bytes)))) {}
  ~MessageMemory() { device_.destroy_arena(ArenaTag::communication); }
  MessageMemory(const MessageMemory&) = delete;
  MessageMemory& operator=(const MessageMemory&) = delete;

  Tensor tensor(const char* name, int64_t bytes) { return arena_.allocate(name, DType::u8, Shape{bytes}); }

 private:
  Device& device_;
  Arena& arena_;
};

// A rank's end of an edge.
class EdgeMeter {
 public:
  EdgeMeter(Device& device, transport::Communicator& pipeline, int64_t bytes, int repetitions)
      : pipeline_(pipeline),
        repetitions_(repetitions),
        memory_(device, bytes + small_bytes),
        sender_(device.create_stream("measured sends", StreamUse::transfer)),
        receiver_(device.create_stream("measured receives", StreamUse::transfer)),
        sent_(device.create_event("sent")),
        received_(device.create_event("received")) {
    large_ = {memory_.tensor("large message out", bytes), memory_.tensor("large message in", bytes)};
    small_ = {memory_.tensor("small message out", small_bytes),
              memory_.tensor("small message in", small_bytes)};
  }

  Incoming measure(int peer) {
    Incoming edge;
    edge.latency = 0.5 * period(latency_repetitions, peer, small_, small_, true);
    edge.both = both_ways(peer);
    // First from the lower rank to the higher, then back.
    for (const bool upwards : {true, false}) {
      const bool ours = (pipeline_.rank() > peer) == upwards;
      const double seconds = period(repetitions_, peer, large_, small_, upwards);
      // Without the answer's way back.
      if (ours) edge.alone = std::max(seconds - edge.latency, 0.5 * seconds);
    }
    return edge;
  }

 private:
  // Median of the seconds between the two stamps that each call of `once` enqueues. All repetitions are
  // queued before the first is waited for: a host that is slow to post is not measured.
  double median(int repetitions, const std::function<void(double* begin, double* end)>& once) {
    std::vector<std::array<double, 2>> stamps(static_cast<size_t>(warm_up + repetitions));
    for (std::array<double, 2>& stamp : stamps) once(&stamp[0], &stamp[1]);
    receiver_->synchronize();
    std::vector<double> samples;
    for (size_t at = warm_up; at < stamps.size(); ++at) samples.push_back(stamps[at][1] - stamps[at][0]);
    return timing_of(std::move(samples)).median;
  }

  // Seconds from one message to the next where one side sends `there`, and the other answers with `back`.
  // `upwards`: the lower rank sends first.
  double period(int repetitions, int peer, const Message& there, const Message& back, bool upwards) {
    const bool first = (pipeline_.rank() < peer) == upwards;
    return median(repetitions, [&](double* begin, double* end) {
      receiver_->stamp(begin);
      pipeline_.exchange(*receiver_, {first ? send_to(peer, there.out) : receive_from(peer, there.in)});
      pipeline_.exchange(*receiver_, {first ? receive_from(peer, back.in) : send_to(peer, back.out)});
      receiver_->stamp(end);
    });
  }

  // As the executor does it: a stream for what is sent, one for what is received. The lower rank sends first:
  // some transports do one thing after another.
  double both_ways(int peer) {
    return median(repetitions_, [&](double* begin, double* end) {
      // The peer is there when the small message is.
      pipeline_.exchange(*receiver_, {send_to(peer, small_.out), receive_from(peer, small_.in)});
      receiver_->record(*received_);
      sender_->wait(*received_);
      receiver_->stamp(begin);
      const bool sends_first = pipeline_.rank() < peer;
      if (sends_first) pipeline_.exchange(*sender_, {send_to(peer, large_.out)});
      pipeline_.exchange(*receiver_, {receive_from(peer, large_.in)});
      if (!sends_first) pipeline_.exchange(*sender_, {send_to(peer, large_.out)});
      receiver_->stamp(end);
      sender_->record(*sent_);
      receiver_->wait(*sent_);
    });
  }

  transport::Communicator& pipeline_;
  int repetitions_;
  MessageMemory memory_;
  std::unique_ptr<Stream> sender_;
  std::unique_ptr<Stream> receiver_;
  std::unique_ptr<Event> sent_;
  std::unique_ptr<Event> received_;
  Message large_;
  Message small_;
};

// Whom `rank` measures with in a round: edges of even ranks, of odd ones, and the ring's last.
std::optional<int> peer_of(int rank, int ranks, int round) {
  if (round == 2) {
    if (rank == 0) return ranks - 1;
    if (rank == ranks - 1) return 0;
    return std::nullopt;
  }
  const int peer = rank % 2 == round ? rank + 1 : rank - 1;
  if (peer < 0 || peer >= ranks) return std::nullopt;
  return peer;
}

// Seconds of `bytes` on the way, of a message that took `seconds` in all.
double passing(double seconds, double latency) {
  constexpr double clock_step = 1e-9;
  return std::max({seconds - latency, 0.1 * seconds, clock_step});
}

}  // namespace

std::vector<MeasuredLink> measure_links(Device& device, transport::World& world,
                                        transport::Communicator& pipeline, int64_t bytes, int repetitions) {
  const int ranks = pipeline.size();
  if (ranks == 1) return {};
  EdgeMeter meter(device, pipeline, bytes, repetitions);
  // Three figures an edge: of rank p from the rank before it, and from the rank behind it.
  constexpr size_t figures = 3;
  std::vector<double> all(2 * figures * static_cast<size_t>(ranks));
  for (int round = 0; round < (ranks > 2 ? 3 : 1); ++round) {
    world.barrier();
    const std::optional<int> peer = peer_of(pipeline.rank(), ranks, round);
    if (!peer) continue;
    const Incoming edge = meter.measure(*peer);
    const bool from_before = *peer == (pipeline.rank() + ranks - 1) % ranks && (ranks > 2 || *peer == 0);
    double* place = &all[figures * (2 * static_cast<size_t>(pipeline.rank()) + (from_before ? 0 : 1))];
    place[0] = edge.latency;
    place[1] = edge.both;
    place[2] = edge.alone;
  }
  world.all_reduce(all, transport::Reduction::maximum);
  std::vector<MeasuredLink> links;
  for (int to = 0; to < ranks; ++to) {
    for (const int side : {0, 1}) {
      const double* place = &all[figures * (2 * static_cast<size_t>(to) + static_cast<size_t>(side))];
      if (place[2] == 0) continue;  // no such edge
      MeasuredLink link;
      link.from = (to + (side == 0 ? ranks - 1 : 1)) % ranks;
      link.to = to;
      link.latency = place[0];
      link.bandwidth = static_cast<double>(bytes) / passing(place[1], place[0]);
      link.bandwidth_alone = static_cast<double>(bytes) / passing(place[2], place[0]);
      links.push_back(link);
    }
  }
  return links;
}

}  // namespace penstock::runtime
