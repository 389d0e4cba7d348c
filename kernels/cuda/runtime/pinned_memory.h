#pragma once

#include <cstddef>
#include <string>

namespace penstock::cuda {

/// `bytes` of zeroed, pinned memory of the host, at the same address for every GPU. `purpose` is named in the
/// DeviceError if there is not that much. nullptr for 0 bytes.
void* reserve_pinned_memory(const std::string& purpose, size_t bytes);
void release_pinned_memory(void* memory, size_t bytes);

}  // namespace penstock::cuda
