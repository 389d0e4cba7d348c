#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock::cpu {

/// Runs body(block) for every block in [0, blocks), on the OpenMP threads of the calling stream worker
/// (serially in builds without OpenMP). Which thread runs a block is not defined: a block may only write what
/// is its own, so that results do not depend on the number of threads (contract C1). The body must not throw.
template <class Body>
void parallel_blocks(int64_t blocks, const Body& body) {
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (blocks > 1)
#endif
  for (int64_t block = 0; block < blocks; ++block) {
    body(block);
  }
}

/// Runs body(begin, end) over [0, count) cut into pieces of `grain` elements (the last may be shorter). The
/// cuts depend on count and grain alone, never on the number of threads.
template <class Body>
void parallel_ranges(int64_t count, int64_t grain, const Body& body) {
  parallel_blocks((count + grain - 1) / grain, [&](int64_t block) {
    const int64_t begin = block * grain;
    body(begin, std::min(count, begin + grain));
  });
}

}  // namespace penstock::cpu
