#include "kernels/transport/tcp_world.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "kernels/transport/tcp/rendezvous.h"
#include "kernels/transport/tcp/tcp_communicator.h"
#include "kernels/transport/tcp/tcp_hub.h"

namespace penstock::transport {
namespace {

/// The channel of what hosts agree on; communicators have two each from 1 on.
constexpr uint32_t control_channel = 0;

class TcpWorld final : public World {
 public:
  TcpWorld(const TcpPlace& place, const TcpOptions& options)
      : World(place.rank, place.ranks),
        options_(options),
        hub_(std::make_shared<TcpHub>(place.rank, meet(place, options))) {}
  ~TcpWorld() override {
    if (!stopped()) hub_->leave(options_.end);
  }
  TcpWorld(const TcpWorld&) = delete;
  TcpWorld& operator=(const TcpWorld&) = delete;

  std::string_view transport() const override { return "tcp"; }
  void abort(const std::string& reason) override { hub_->interruption()->stop(reason); }
  bool stopped() const override { return hub_->interruption()->stopped(); }
  std::string stop_reason() const override { return hub_->interruption()->reason(); }

 private:
  std::vector<std::string> share(std::string_view bytes) override {
    const auto ranks = static_cast<size_t>(size());
    const uint64_t ours = bytes.size();
    std::vector<uint64_t> sizes(ranks, ours);
    everyone(&ours, sizeof ours,
             [&](size_t peer) { return std::pair<void*, size_t>(&sizes[peer], sizeof ours); });
    std::vector<std::string> all(ranks);
    for (size_t peer = 0; peer < ranks; ++peer) all[peer].resize(sizes[peer]);
    all[static_cast<size_t>(rank())] = bytes;
    everyone(bytes.data(), bytes.size(),
             [&](size_t peer) { return std::pair<void*, size_t>(all[peer].data(), all[peer].size()); });
    return all;
  }

  /// Sends every other rank the same, and receives from each into where `place` says.
  template <class Place>
  void everyone(const void* data, size_t bytes, Place place) {
    std::vector<TcpTransfer> transfers;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const auto [theirs, their_bytes] = place(static_cast<size_t>(peer));
      transfers.push_back(
          {static_cast<std::byte*>(theirs), their_bytes, control_channel, agreements_, peer, false});
      // Sends only read.
      transfers.push_back({static_cast<std::byte*>(const_cast<void*>(data)), bytes, control_channel,
                           agreements_, peer, true});
    }
    ++agreements_;
    if (const std::optional<TcpHub::Failure> failure = hub_->run(transfers)) {
      throw DeviceError(fmt::format("world rank {}: agreement of the ranks: with world rank {}: {}", rank(),
                                    transfers[failure->index].peer, failure->reason));
    }
  }

  std::unique_ptr<Communicator> make_communicator(const std::string& name, const std::vector<int>& members,
                                                  int our_rank) override {
    const uint32_t channel = channels_;
    channels_ += 2;
    if (our_rank < 0) return nullptr;
    return std::make_unique<TcpCommunicator>(
        std::make_shared<const Identity>(Identity{name, members, our_rank}), hub_, channel);
  }

  const TcpOptions options_;
  std::shared_ptr<TcpHub> hub_;
  uint32_t agreements_ = 0;
  uint32_t channels_ = 1;
};

}  // namespace

std::unique_ptr<World> make_tcp_world(const TcpPlace& place, const TcpOptions& options) {
  return std::make_unique<TcpWorld>(place, options);
}

}  // namespace penstock::transport
