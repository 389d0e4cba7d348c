#include "kernels/device/stream_failure.h"

#include <fmt/format.h>

namespace penstock {

void StreamFailure::fail(const std::string& task, const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (failed_.load()) return;
  task_ = task;
  what_ = what;
  failed_.store(true);
}

void StreamFailure::drop() {
  const std::lock_guard lock(mutex_);
  ++dropped_;
}

std::string StreamFailure::text() const {
  const std::lock_guard lock(mutex_);
  return fmt::format("task \"{}\" failed: {} ({} tasks queued behind it were dropped)", task_, what_,
                     dropped_);
}

void StreamFailure::clear() {
  const std::lock_guard lock(mutex_);
  dropped_ = 0;
  failed_.store(false);
}

}  // namespace penstock
