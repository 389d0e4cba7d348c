// A world with one slow link, whatever the transport: its messages wait at the sender before they leave.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/device/error.h"
#include "kernels/transport/world.h"

namespace penstock::testing {

struct SlowLink {
  int source = -1;  ///< world ranks
  int destination = -1;
  std::chrono::milliseconds delay{0};
};

class SlowLinkCommunicator final : public transport::Communicator {
 public:
  SlowLinkCommunicator(std::unique_ptr<transport::Communicator> inner, const SlowLink& slow)
      : Communicator(std::make_shared<transport::Identity>(
            transport::Identity{inner->name(), inner->members(), inner->rank()})),
        inner_(std::move(inner)),
        slow_(slow) {}

 private:
  void queue_exchange(Stream& stream, transport::TransferGroup group) override {
    std::vector<transport::Message> messages;
    for (const transport::Transfer& transfer : group.all()) {
      const Tensor bytes(transfer.data, DType::u8, Shape{static_cast<int64_t>(transfer.bytes)});
      messages.push_back({transfer.sends ? transport::Direction::send : transport::Direction::receive,
                          transfer.peer, bytes});
      const bool slow = transfer.sends && members()[static_cast<size_t>(rank())] == slow_.source &&
                        members()[static_cast<size_t>(transfer.peer)] == slow_.destination;
      if (slow)
        stream.host_task("slow link", 0, [delay = slow_.delay] { std::this_thread::sleep_for(delay); });
    }
    inner_->exchange(stream, messages);
  }
  void queue_collective(Stream& stream, const transport::Collective& collective) override {
    if (collective.kind != transport::CollectiveKind::barrier)
      throw UsageError("a slow link's world has no collective but barriers");
    inner_->barrier(stream);
  }

  std::unique_ptr<transport::Communicator> inner_;
  SlowLink slow_;
};

class SlowLinkWorld final : public transport::World {
 public:
  SlowLinkWorld(transport::World& inner, const SlowLink& slow)
      : World(inner.rank(), inner.size()), inner_(inner), slow_(slow) {}

  std::string_view transport() const override { return inner_.transport(); }
  void abort(const std::string& reason) override { inner_.abort(reason); }
  bool stopped() const override { return inner_.stopped(); }
  std::string stop_reason() const override { return inner_.stop_reason(); }

 private:
  std::vector<std::string> share(std::string_view bytes) override {
    std::vector<std::string> all;
    for (int rank = 0; rank < size(); ++rank) all.push_back(inner_.broadcast(bytes, rank));
    return all;
  }
  std::unique_ptr<transport::Communicator> make_communicator(const std::string& name,
                                                             const std::vector<int>& members,
                                                             int /*rank*/) override {
    auto inner = inner_.create(name, members);
    return inner ? std::make_unique<SlowLinkCommunicator>(std::move(inner), slow_) : nullptr;
  }

  transport::World& inner_;
  SlowLink slow_;
};

}  // namespace penstock::testing
