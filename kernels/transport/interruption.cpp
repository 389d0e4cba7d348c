#include "kernels/transport/interruption.h"

#include <fmt/format.h>

namespace penstock::transport {

void Interruption::stop(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_.load()) return;
    reason_ = reason;
    stopped_.store(true);
  }
  wake_();
}

std::string Interruption::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

std::string Identity::label() const {
  return fmt::format("communicator \"{}\", rank {} of {} (world rank {})", name, rank, size(),
                     world_rank(rank));
}

std::string Identity::peer_label(int peer) const {
  return fmt::format("rank {} (world rank {})", peer, world_rank(peer));
}

Obligation::~Obligation() {
  if (!interruption_) return;
  interruption_->stop(fmt::format("{}: {} was dropped, because earlier work on its stream failed",
                                  who_->label(), operation_));
}

}  // namespace penstock::transport
