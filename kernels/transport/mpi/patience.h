#pragma once

#include <chrono>
#include <cstddef>

namespace penstock::transport {

/// How a thread waits for MPI, which has to be polled: once nothing has moved for `spin` it sleeps between
/// polls, an eighth of the time it has waited so far and at most `longest_sleep`, so that waiting costs no
/// core. While data is known to flow it polls on, because the library moves data only while it is polled.
class Patience {
 public:
  static constexpr std::chrono::microseconds spin{200};
  static constexpr std::chrono::microseconds longest_sleep{1000};

  /// `crowded`: more ranks than processors, so that each poll gives way to others. Elsewhere a yield may cost
  /// a time slice and gain nothing.
  explicit Patience(bool crowded) : crowded_(crowded) {}

  /// Something completed.
  void moved() { since_ = std::chrono::steady_clock::now(); }
  /// A poll found nothing. `flowing_bytes`: what is left of messages whose peer is known to be there.
  void pause(size_t flowing_bytes) const;

 private:
  const bool crowded_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace penstock::transport
