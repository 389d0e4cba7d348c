#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <nccl.h>

#include "kernels/transport/interruption.h"

namespace penstock::transport {

/// One of NCCL's communicators, which another thread may give up at any time. Calls go through a lock, as it
/// is gone afterwards.
class NcclHandle {
 public:
  NcclHandle(std::shared_ptr<const Identity> who, ncclComm_t comm) : who_(std::move(who)), comm_(comm) {}

  const Identity& who() const { return *who_; }

  /// call(comm); nothing once it was given up.
  template <class Call>
  std::optional<ncclResult_t> with(Call call) {
    const std::lock_guard lock(mutex_);
    if (gone_) return std::nullopt;
    return call(comm_);
  }
  /// The same, and nothing while another thread is in a call.
  template <class Call>
  std::optional<ncclResult_t> if_free(Call call) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || gone_) return std::nullopt;
    return call(comm_);
  }

  /// No call is made from now on. Whoever is given the communicator ends it; nullptr for all but the first.
  ncclComm_t take() {
    const std::lock_guard lock(mutex_);
    if (gone_) return nullptr;
    gone_ = true;
    return comm_;
  }

 private:
  const std::shared_ptr<const Identity> who_;
  std::mutex mutex_;
  ncclComm_t comm_;
  bool gone_ = false;
};

}  // namespace penstock::transport
