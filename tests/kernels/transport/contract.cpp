#include "tests/kernels/transport/contract.h"

#include <algorithm>
#include <utility>

#include "tests/kernels/transport/rank_device.h"

namespace penstock::transport {
namespace {

DeviceOptions options_of(int rank, StreamMode mode, std::shared_ptr<Clock> clock) {
  DeviceOptions options;
  options.rank = rank;
  options.mode = mode;
  options.clock = std::move(clock);
  options.strict_events = true;
  return options;
}

}  // namespace

Rank::Rank(World& world, StreamMode mode, std::shared_ptr<Clock> clock, std::chrono::milliseconds lateness)
    : world_(world),
      device_(make_rank_device(options_of(world.rank(), mode, std::move(clock)))),
      lateness_(lateness) {
  attach(world, *device_);
}

Stream& Rank::stream(const std::string& name) {
  const auto known = std::find_if(streams_.begin(), streams_.end(),
                                  [&](const auto& stream) { return stream->name() == name; });
  if (known != streams_.end()) return **known;
  streams_.push_back(device_->create_stream(name, StreamUse::transfer));
  return *streams_.back();
}

void Rank::synchronize() {
  for (const std::unique_ptr<Stream>& stream : streams_) stream->synchronize();
}

std::vector<ContractCase> all_cases() {
  std::vector<ContractCase> all;
  for (const std::span<const ContractCase> cases :
       {message_cases(), collective_cases(), world_cases(), clock_cases()})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

}  // namespace penstock::transport
