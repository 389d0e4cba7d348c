#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace penstock::cpu {

/// How much memory the process can still touch without being killed for it.
struct AvailableMemory {
  uint64_t bytes = 0;
  std::string
      source;  ///< what sets the limit: "MemAvailable of /proc/meminfo", "memory.max of control group …"
};

/// The smaller of MemAvailable and what the process's control group (version 2, and the groups above it)
/// leaves. DeviceError if /proc/meminfo cannot be read.
AvailableMemory available_memory();

/// `bytes` of zeroed memory, touched; large pages where they fit. `purpose` is named in errors. DeviceError
/// with the numbers if it is more than the machine can give. Freed by release_memory with the same size.
/// nullptr for 0 bytes.
void* reserve_memory(const std::string& purpose, size_t bytes);
void release_memory(void* memory, size_t bytes);

}  // namespace penstock::cpu
