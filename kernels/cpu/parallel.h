#pragma once

#include <algorithm>
#include <cstdint>

#ifdef _OPENMP
#include <omp.h>
#endif

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

/// As parallel_blocks, for blocks of uneven cost: threads take them one by one in ascending order, so the
/// costly ones should come first.
template <class Body>
void parallel_uneven_blocks(int64_t blocks, const Body& body) {
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) if (blocks > 1)
#endif
  for (int64_t block = 0; block < blocks; ++block) {
    body(block);
  }
}

/// Which of the stream's threads runs the calling block, from 0: for scratch memory, never for results.
inline int thread_index() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
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
