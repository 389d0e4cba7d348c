#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace penstock::cpu {

/// Bodies that take turns on one thread: where one waits at a WaitPoint, another goes on whose condition is
/// true. A hand-over costs a fraction of a microsecond, where threads that outnumber the cores take ten.
class Fibers {
 public:
  /// Not under address or thread sanitizer, which would have to be told of every switch.
  static bool supported();
  /// Runs all bodies to their ends, on the calling thread; from no body. Bodies do not throw.
  static void run(std::span<const std::function<void()>> bodies);
  /// Those that run on the calling thread; null outside run().
  static Fibers* current() { return current_; }

  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  using Ready = bool (*)(void* context);
  /// Returns once ready(context). Other bodies run meanwhile, or, where all wait for other threads, nothing.
  void wait(Ready ready, void* context);

 private:
  struct Fiber;

  explicit Fibers(std::span<const std::function<void()>> bodies);
  static void enter();
  /// The next fiber behind the running one that can go on, itself included unless it has ended.
  Fiber& next();
  void switch_to(Fiber& fiber);

  static thread_local Fibers* current_;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::unique_ptr<Fiber> caller_;
  Fiber* running_ = nullptr;
  size_t alive_ = 0;
};

}  // namespace penstock::cpu
