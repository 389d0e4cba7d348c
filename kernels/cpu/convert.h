#pragma once

#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/parallel.h"

namespace penstock::cpu {

/// to[i] = from[i] for count elements, rounded to nearest even where To is narrower, on the threads of the
/// calling stream.
template <class From, class To>
void convert_elements(const From* from, int64_t count, To* to) {
  constexpr int64_t grain = 16384;
  parallel_ranges(count, grain, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) store(to[i], static_cast<float>(from[i]));
  });
}

}  // namespace penstock::cpu
