// A binary that links allocation_count counts every operator new and delete.
#pragma once

#include <cstdint>

namespace penstock {

/// Allocations so far: of all threads, and of this one.
int64_t allocations();
int64_t allocations_of_this_thread();
/// Allocated and not freed, of all threads.
int64_t live_allocations();

}  // namespace penstock
