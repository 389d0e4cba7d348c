#pragma once

#include <chrono>
#include <cstddef>

namespace penstock::transport {

/// How a thread waits for MPI, which has to be polled: at first it only gives way to other threads between
/// polls; once nothing has moved for `spin` it sleeps, an eighth of the time it has waited so far and at most
/// `longest_sleep`, so that waiting costs no core and delays what it waits for by an eighth. While data is
/// known to flow it does not sleep, because the library moves data only while it is polled.
class Patience {
 public:
  static constexpr std::chrono::microseconds spin{200};
  static constexpr std::chrono::microseconds longest_sleep{1000};

  /// Something completed.
  void moved() { since_ = std::chrono::steady_clock::now(); }
  /// A poll found nothing. `flowing_bytes`: what is left of messages whose peer is known to be there.
  void pause(size_t flowing_bytes = 0) const;

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace penstock::transport
