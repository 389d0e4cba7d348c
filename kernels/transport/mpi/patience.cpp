#include "kernels/transport/mpi/patience.h"

#include <algorithm>
#include <thread>

namespace penstock::transport {

void Patience::pause(size_t flowing_bytes) const {
  using Seconds = std::chrono::duration<double>;
  // A flow slower than this is treated as waiting.
  constexpr double slowest_bytes_per_second = 100e6;
  constexpr Seconds least_flow{2e-3};
  const Seconds waited = std::chrono::steady_clock::now() - since_;
  Seconds poll = spin;
  if (flowing_bytes > 0)
    poll = least_flow + Seconds(static_cast<double>(flowing_bytes) / slowest_bytes_per_second);
  if (waited >= poll) {
    std::this_thread::sleep_for(std::min<Seconds>(waited / 8, longest_sleep));
  } else if (crowded_) {
    std::this_thread::yield();
  }
}

}  // namespace penstock::transport
