#include "kernels/transport/inproc/releaser.h"

#include <chrono>

namespace penstock::transport {

Releaser::~Releaser() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Releaser::add(Releasable& releasable) {
  const std::lock_guard lock(mutex_);
  all_.push_back(&releasable);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void Releaser::remove(Releasable& releasable) {
  const std::lock_guard lock(mutex_);
  std::erase(all_, &releasable);
}

void Releaser::start() {
  {
    const std::lock_guard lock(mutex_);
    started_ = true;
  }
  changed_.notify_all();
}

void Releaser::run() {
  constexpr std::chrono::milliseconds period(1);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return started_ || ended_; });
  while (!ended_) {
    for (Releasable* each : all_) each->release();
    changed_.wait_for(lock, period);
  }
}

}  // namespace penstock::transport
