#pragma once

#include <cstdint>

namespace penstock {

/// How much memory of its own a device has left.
struct DeviceMemory {
  uint64_t bytes = 0;  ///< free now, whoever holds the rest
  uint64_t total = 0;
  int devices = 1;  ///< of this kind that the process sees
};

/// What a Device is, too, if it has memory other than the host's (dynamic_cast).
class OwnMemory {
 public:
  virtual ~OwnMemory() = default;
  virtual DeviceMemory memory_left() const = 0;
};

}  // namespace penstock
