#include "kernels/cpu/read_rate.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "kernels/cpu/host_memory.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/thread_scope.h"

namespace penstock::cpu {
namespace {

constexpr size_t floats = size_t{1} << 26;  // 256 MiB
constexpr size_t piece = size_t{1} << 14;
constexpr int passes = 6;  // the first one warms up

float sum_of(std::span<const float> values) {
  constexpr size_t step = size_t{4} * lane_count;
  Lanes sums[4] = {Lanes::zero(), Lanes::zero(), Lanes::zero(), Lanes::zero()};
  const Lanes one = Lanes::broadcast(1.0F);
  for (size_t i = 0; i + step <= values.size(); i += step) {
#pragma GCC unroll 4
    for (size_t part = 0; part < 4; ++part)
      sums[part] = fused(Lanes::load(values.data() + i + part * lane_count), one, sums[part]);
  }
  return sums[0].sum() + sums[1].sum() + sums[2].sum() + sums[3].sum();
}

double read_passes(std::span<const std::span<const float>> memory) {
  std::vector<std::span<const float>> pieces;
  double bytes = 0;
  for (const std::span<const float> each : memory) {
    bytes += static_cast<double>(each.size_bytes());
    for (size_t at = 0; at < each.size(); at += piece)
      pieces.push_back(each.subspan(at, std::min(piece, each.size() - at)));
  }
  std::vector<float> sums(pieces.size());
  double best = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    parallel_blocks(static_cast<int64_t>(pieces.size()), [&](int64_t at) {
      sums[static_cast<size_t>(at)] = sum_of(pieces[static_cast<size_t>(at)]);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (pass > 0) best = std::max(best, bytes / seconds);
  }
  return best;
}

}  // namespace

double measure_read_rate(int threads, std::span<const std::span<const float>> memory) {
  double rate = 0;
  // In a thread of its own, whose team ends with it: libgomp, which counts teams of all threads, lets waiting
  // ones sleep almost at once where they are more than processors, and every later kernel waits for them to
  // wake.
  std::thread([&] {
    const ThreadScope scope(threads);
    rate = read_passes(memory);
  }).join();
  return rate;
}

double measure_read_rate(int threads) {
  constexpr size_t bytes = floats * sizeof(float);
  auto* const memory =
      static_cast<float*>(reserve_memory("measuring the rate at which memory is read", bytes));
  const std::span<const float> all(memory, floats);
  const double rate = measure_read_rate(threads, {&all, 1});
  release_memory(memory, bytes);
  return rate;
}

}  // namespace penstock::cpu
