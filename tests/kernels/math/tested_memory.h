#pragma once

#include <cstddef>

/// Memory that what is under test computes in. A binary links one definition: tested_memory.cpp beside this
/// file, where that is the host's own, or a GPU's (tests/kernels/gpu).
namespace penstock::testing::tested_memory {

/// Null: the host's memory will do.
void* reserve(size_t bytes);
void release(void* memory);
/// Both return when it is done.
void upload(void* memory, const void* host, size_t bytes);
void download(void* host, const void* memory, size_t bytes);

}  // namespace penstock::testing::tested_memory
