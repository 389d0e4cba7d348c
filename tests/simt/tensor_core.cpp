#include "tests/simt/tensor_core.h"

#include <memory>
#include <vector>

#include "tests/simt/block.h"
#include "tests/simt/shared_memory.h"

namespace penstock::simt {
namespace {

constexpr unsigned most_threads = 1024;
constexpr unsigned most_copies = 64;

/// Words of the lanes of a warp. Two sets: who goes on to the next exchange may write while others still
/// read.
struct Exchange {
  uint64_t block = 0;  ///< whose they are
  WarpWords words[2];
  std::array<unsigned, warp_size> calls{};
};

struct Copy {
  LandedCopy what;
  uint64_t group = 0;
};

/// A thread's copies that have not landed, oldest first.
struct Copies {
  uint64_t block = 0;  ///< whose they are
  uint64_t group = 0;  ///< of the next
  unsigned begin = 0;
  unsigned end = 0;
  std::array<Copy, most_copies> ring;
};

unsigned running_thread() {
  const uint3 at = current_here->thread;
  const dim3 size = current_here->block_size;
  return at.x + size.x * (at.y + size.y * at.z);
}

Copies& copies_of_this_thread() {
  thread_local const auto all = std::make_unique<std::array<Copies, most_threads>>();
  Copies& mine = (*all)[running_thread()];
  if (mine.block != current_block) {
    mine.block = current_block;
    mine.group = 0;
    mine.begin = mine.end = 0;
  }
  return mine;
}

}  // namespace

void gather_words(const uint64_t* mine, unsigned count, WarpWords& all, const std::source_location& place) {
  thread_local const auto exchanges = std::make_unique<std::array<Exchange, most_threads / warp_size>>();
  const unsigned thread = running_thread();
  Exchange& exchange = (*exchanges)[thread / warp_size];
  if (exchange.block != current_block) {  // the last one may have ended with a fault
    exchange.block = current_block;
    exchange.calls = {};
  }
  // Numbers of calls differ by one at most within a warp, and are equal whenever nobody is in here.
  WarpWords& words = exchange.words[exchange.calls[thread % warp_size]++ % 2];
  for (unsigned i = 0; i < count; ++i) words[thread % warp_size][i] = mine[i];
  warp_exchange(WarpOperation::any, 0xffffffffU, 0, 0, 0, place);
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    for (unsigned i = 0; i < count; ++i) all[lane][i] = words[lane][i];
  }
}

void start_async_copy(const SharedRegion& region, void* to, const AsyncBytes& bytes,
                      const std::source_location& place) {
  check_shared_write(region, to, sizeof(bytes), sizeof(bytes), place);
  const auto offset = static_cast<char*>(to) - region.begin;
  for (size_t i = 0; i < sizeof(bytes); ++i) region.written[static_cast<size_t>(offset) + i] = 0;
  Copies& mine = copies_of_this_thread();
  if (mine.end - mine.begin == most_copies) fault("more asynchronous copies than the harness keeps", place);
  mine.ring[mine.end++ % most_copies] = {{&region, to, bytes}, mine.group};
}

void commit_async_copies() {
  ++copies_of_this_thread().group;
}

bool next_landed_copy(int groups, LandedCopy& landed) {
  Copies& mine = copies_of_this_thread();
  if (mine.begin == mine.end) return false;
  const Copy& oldest = mine.ring[mine.begin % most_copies];
  if (oldest.group + static_cast<uint64_t>(groups) >= mine.group) return false;
  landed = oldest.what;
  ++mine.begin;
  return true;
}

}  // namespace penstock::simt
