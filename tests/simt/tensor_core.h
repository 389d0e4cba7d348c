#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <source_location>

#include "tests/simt/machine.h"

/// What the wrappers of tensor-core and asynchronous copy instructions need of the harness. Included on the
/// command line by kernels that use them.
namespace penstock::simt {

/// By lane: the words that it gave.
using WarpWords = std::array<std::array<uint64_t, 3>, 32>;
/// Every lane of the warp gives `count` words and receives those of all; a fault where a lane is missing.
void gather_words(const uint64_t* mine, unsigned count, WarpWords& all, const std::source_location& place);

struct alignas(16) AsyncBytes {
  uint64_t words[2];
};
/// `to` in shared memory is as if it were not written until the copy has landed.
void start_async_copy(const SharedRegion& region, void* to, const AsyncBytes& bytes,
                      const std::source_location& place);
void commit_async_copies();

struct LandedCopy {
  const SharedRegion* region = nullptr;
  void* to = nullptr;
  AsyncBytes bytes{};
};
/// Takes the next of the running thread's copies that has landed when all its groups but the latest `groups`
/// have.
bool next_landed_copy(int groups, LandedCopy& landed);

}  // namespace penstock::simt
