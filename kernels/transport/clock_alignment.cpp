#include "kernels/transport/clock_alignment.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::transport {
namespace {

constexpr size_t rounds = 16;

Tensor one(double& value) {
  return {&value, DType::fp64, Shape{1}};
}

}  // namespace

bool ranks_share_clock(const World& world, const Device& device) {
  return world.size() == 1 || world.transport() == "inproc" || device.options().clock->is_virtual();
}

ClockAlignment::ClockAlignment(World& world, Device& device, bool shared)
    : world_(world), device_(device), shared_(shared) {
  if (!shared_) all_ = world_.create("clocks");
}

void ClockAlignment::measure() {
  if (shared_) return;
  if (world_.rank() == 0) {
    ask_all();
  } else {
    answer();
  }
}

void ClockAlignment::ask_all() {
  struct Round {
    double asked = 0;
    double theirs = 0;
    double answered = 0;
    double width() const { return answered - asked; }
  };
  const auto others = static_cast<size_t>(world_.size() - 1);
  std::vector<std::array<Round, rounds>> asked(others);
  std::vector<Measurement> found(others);
  double ping = 0;
  // Last, so that an exception lets the queued work run out before what it writes goes away.
  const std::unique_ptr<Stream> stream = device_.create_stream("clocks", StreamUse::transfer);
  const AbortOnUnwind abort(world_);
  for (size_t other = 0; other < others; ++other) {
    const int peer = static_cast<int>(other) + 1;
    for (Round& round : asked[other]) {
      stream->stamp(&round.asked);
      all_->exchange(*stream, {send_to(peer, one(ping))});
      all_->exchange(*stream, {receive_from(peer, one(round.theirs))});
      stream->stamp(&round.answered);
    }
  }
  stream->synchronize();
  for (size_t other = 0; other < others; ++other) {
    const Round& best =
        *std::min_element(asked[other].begin(), asked[other].end(),
                          [](const Round& a, const Round& b) { return a.width() < b.width(); });
    Measurement& result = found[other];
    result = {best.theirs, best.theirs - (best.asked + best.answered) / 2, best.width() / 2};
    const int peer = static_cast<int>(other) + 1;
    all_->exchange(*stream, {send_to(peer, one(result.at)), send_to(peer, one(result.offset)),
                             send_to(peer, one(result.error))});
  }
  stream->synchronize();
  keep({device_.options().clock->now(), 0, 0});
}

void ClockAlignment::answer() {
  std::array<double, rounds> answers{};
  Measurement result;
  double ping = 0;
  const std::unique_ptr<Stream> stream = device_.create_stream("clocks", StreamUse::transfer);
  const AbortOnUnwind abort(world_);
  for (double& answer : answers) {
    all_->exchange(*stream, {receive_from(0, one(ping))});
    stream->stamp(&answer);
    all_->exchange(*stream, {send_to(0, one(answer))});
  }
  all_->exchange(*stream, {receive_from(0, one(result.at)), receive_from(0, one(result.offset)),
                           receive_from(0, one(result.error))});
  stream->synchronize();
  keep(result);
}

void ClockAlignment::keep(const Measurement& measurement) {
  if (kept_.size() == kept_measurements) kept_.erase(kept_.begin());
  kept_.push_back(measurement);
}

std::pair<const ClockAlignment::Measurement*, const ClockAlignment::Measurement*> ClockAlignment::around(
    double seconds) const {
  if (kept_.empty()) {
    throw UsageError(fmt::format("world rank {}: clocks compared before they were measured", world_.rank()));
  }
  const auto after =
      std::find_if(kept_.begin(), kept_.end(), [&](const Measurement& kept) { return kept.at >= seconds; });
  if (after == kept_.begin()) return {&kept_.front(), &kept_.front()};
  if (after == kept_.end()) return {&kept_.back(), &kept_.back()};
  return {&*(after - 1), &*after};
}

double ClockAlignment::offset(double seconds) const {
  if (shared_) return 0;
  const auto [before, after] = around(seconds);
  if (before == after) return before->offset;
  const double share = (seconds - before->at) / (after->at - before->at);
  return before->offset + share * (after->offset - before->offset);
}

double ClockAlignment::error(double seconds) const {
  if (shared_) return 0;
  const auto [before, after] = around(seconds);
  return std::max(before->error, after->error);
}

}  // namespace penstock::transport
