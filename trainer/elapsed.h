#pragma once

#include <chrono>

namespace penstock {

/// Seconds from `start` until now, for logs and reports; what a run decides by is measured by its device's
/// clock.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace penstock
