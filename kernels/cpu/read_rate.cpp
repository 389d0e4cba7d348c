#include "kernels/cpu/read_rate.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/thread_scope.h"

namespace penstock::cpu {
namespace {

constexpr int64_t floats = int64_t{1} << 26;  // 256 MiB
constexpr int64_t piece = 1 << 16;
constexpr int passes = 6;  // the first one warms up

float sum_of(const float* from, int64_t count) {
  constexpr int64_t step = 4 * lane_count;
  Lanes sums[4] = {Lanes::zero(), Lanes::zero(), Lanes::zero(), Lanes::zero()};
  const Lanes one = Lanes::broadcast(1.0F);
  for (int64_t i = 0; i < count; i += step) {
#pragma GCC unroll 4
    for (int64_t part = 0; part < 4; ++part)
      sums[part] = fused(Lanes::load(from + i + part * lane_count), one, sums[part]);
  }
  return sums[0].sum() + sums[1].sum() + sums[2].sum() + sums[3].sum();
}

}  // namespace

double measure_read_rate(int threads) {
  const ThreadScope scope(threads);
  const std::unique_ptr<float[]> memory(new float[floats]);
  std::vector<float> sums(static_cast<size_t>(floats / piece));
  parallel_ranges(floats, piece, [&](int64_t begin, int64_t end) {
    std::fill(memory.get() + begin, memory.get() + end, 0.5F);
  });
  double best = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    parallel_ranges(floats, piece, [&](int64_t begin, int64_t end) {
      sums[static_cast<size_t>(begin / piece)] = sum_of(memory.get() + begin, end - begin);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (pass > 0) best = std::max(best, static_cast<double>(floats) * sizeof(float) / seconds);
  }
  return best;
}

}  // namespace penstock::cpu
