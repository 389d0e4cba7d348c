#include "kernels/transport/inproc/fabric.h"

#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::transport {

Hub::Hub(std::string hub_name, std::vector<int> hub_members)
    : name(std::move(hub_name)),
      members(std::move(hub_members)),
      mailboxes(std::make_unique<Mailbox[]>(members.size())),
      meetings(members.size()),
      signalled(members.size()) {}

Fabric::Fabric(int ranks, const InprocOptions& options)
    : ranks_(ranks),
      buffered_(options.buffered),
      links_(options.links),
      delay_(options.delay),
      interruption_(std::make_shared<Interruption>([this] { wake_all(); })),
      giving_(static_cast<size_t>(ranks)) {
  if (ranks < 1) throw UsageError(fmt::format("an inproc world of {} ranks; at least 1 is needed", ranks));
  if (!links_.free() && links_.ranks() != ranks)
    throw UsageError(
        fmt::format("a link model of {} ranks for an inproc world of {}", links_.ranks(), ranks));
}

std::vector<std::string> Fabric::share(int rank, std::string_view bytes) {
  uint64_t round = 0;
  {
    const std::lock_guard lock(mutex_);
    round = round_.load();
    giving_[static_cast<size_t>(rank)] = bytes;
    if (++given_ == ranks_ && !interruption_->stopped()) {
      result_ = std::make_shared<const std::vector<std::string>>(
          std::exchange(giving_, std::vector<std::string>(static_cast<size_t>(ranks_))));
      given_ = 0;
      round_.fetch_add(1);
      shared_.notify_all();
    }
  }
  shared_.wait([&] { return round_.load() != round || interruption_->stopped(); });
  const std::lock_guard lock(mutex_);
  if (round_.load() == round) {
    throw DeviceError(
        fmt::format("world rank {}: the ranks cannot agree any more: {}", rank, interruption_->reason()));
  }
  // The next round cannot end before this rank has given its bytes to it, so the result is still ours.
  return *result_;
}

Hub& Fabric::hub(size_t index, const std::string& name, const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  if (index == hubs_.size()) hubs_.push_back(std::make_unique<Hub>(name, members));
  return *hubs_[index];
}

void Fabric::check_clock(const std::string& stream, bool on_virtual_clock) {
  const ClockKind kind = on_virtual_clock ? ClockKind::on_virtual : ClockKind::real;
  ClockKind known = clock_.load(std::memory_order_relaxed);
  if (known == ClockKind::unknown && clock_.compare_exchange_strong(known, kind)) known = kind;
  if (known != kind) {
    throw UsageError(
        fmt::format("stream \"{}\" is on a {} clock, and other streams of this world are not; give every "
                    "device of the run "
                    "the same kind",
                    stream, on_virtual_clock ? "virtual" : "real"));
  }
  if (on_virtual_clock && buffered_) {
    throw UsageError(
        fmt::format("stream \"{}\" is on a virtual clock; a buffered world needs real ones", stream));
  }
}

void Fabric::wake_all() {
  releaser_.start();
  const std::lock_guard lock(mutex_);
  shared_.notify_all();
  for (const std::unique_ptr<Hub>& hub : hubs_) {
    for (size_t i = 0; i < hub->members.size(); ++i) hub->mailboxes[i].change();
    hub->meetings.wake_all();
  }
}

}  // namespace penstock::transport
