#pragma once

#include <cstddef>

namespace penstock {

/// Resident memory of this process in bytes: now, and at its highest (VmRSS and VmHWM of /proc/self/status).
/// std::system_error if the file cannot be read.
struct ProcessMemory {
  size_t resident = 0;
  size_t peak = 0;
};
ProcessMemory process_memory();

}  // namespace penstock
