#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace penstock::simt {

/// A stack of its own that a thread switches to and away from, known to the address and the thread sanitizer
/// (compiled with PENSTOCK_SIMT_ADDRESS or PENSTOCK_SIMT_THREAD). A switch orders nothing for the thread
/// sanitizer: what one fiber wrote and another reads is a race unless they meet at a Meeting.
class Fiber {
 public:
  /// The calling thread itself, on the stack it has.
  Fiber();
  /// Runs `body` when first switched to; when it returns, `home` goes on.
  Fiber(Fiber& home, std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Leaves `from`, on which the caller runs; returns when somebody switches back to it.
  static void switch_to(Fiber& from, Fiber& to);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What fibers meet at: all that happened before `arrive` happened before what follows `leave`.
class Meeting {
 public:
  void arrive();
  void leave();

 private:
  char address_ = 0;
};

}  // namespace penstock::simt
