#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/device.h"
#include "kernels/transport/world.h"
#include "tests/kernels/transport/buffer.h"

/// What every transport promises, as test bodies that each rank of a world runs: the same for all transports,
/// all world sizes, and all modes of streams.
namespace penstock::transport {

/// One rank in a test body. Streams are the rank's, so that they outlive what a body queued on them.
class Rank {
 public:
  /// `lateness`: how long a peer is waited for in the case of late peers.
  Rank(World& world, StreamMode mode, std::shared_ptr<Clock> clock,
       std::chrono::milliseconds lateness = std::chrono::milliseconds(15));

  World& world() { return world_; }
  Device& device() { return *device_; }
  std::chrono::milliseconds lateness() const { return lateness_; }
  int index() const { return world_.rank(); }
  int size() const { return world_.size(); }
  int next() const { return (index() + 1) % size(); }
  int previous() const { return (index() + size() - 1) % size(); }
  /// A stream of this rank, made on its first use.
  Stream& stream(const std::string& name);
  void synchronize();

 private:
  World& world_;
  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::chrono::milliseconds lateness_;
};

struct ContractCase {
  const char* name;
  /// The body orders operations by streams only, so it needs streams that do not run at enqueue, and that do
  /// not wait for one another.
  bool needs_queues;
  void (*body)(Rank& rank);
};

std::span<const ContractCase> message_cases();
std::span<const ContractCase> collective_cases();
std::span<const ContractCase> world_cases();
std::span<const ContractCase> clock_cases();
std::vector<ContractCase> all_cases();

}  // namespace penstock::transport
