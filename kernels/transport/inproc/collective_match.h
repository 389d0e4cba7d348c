#pragma once

#include <span>
#include <string>

#include "kernels/transport/communicator.h"

namespace penstock::transport {

/// "all_reduce of 12 fp32 elements (sum)".
std::string described(const Collective& collective);
/// What is wrong if the ranks, in the communicator's order, do not all do the same; else empty.
std::string mismatch(const Identity& who, std::span<const Collective> collectives);
/// The `index`-th block of `bytes` bytes.
std::byte* block(void* memory, size_t index, size_t bytes);

}  // namespace penstock::transport
