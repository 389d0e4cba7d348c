#include "tests/bench/rates.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include <oneapi/dnnl/dnnl.h>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/thread_scope.h"

namespace penstock::bench {
namespace {

/// Seconds of the fastest of `tries` runs, after one to warm up: the roof is what the machine can do.
template <class Work>
double fastest(int tries, const Work& work) {
  work();
  double best = 1e30;
  for (int i = 0; i < tries; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

double measure_memory(int threads) {
  const cpu::ThreadScope scope(threads);
  const size_t bytes = size_t{256} << 20;
  std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes);
  const double seconds = fastest(5, [&] {
    cpu::parallel_ranges(static_cast<int64_t>(bytes), 1 << 20, [&](int64_t begin, int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
    });
  });
  return 2 * static_cast<double>(bytes) / seconds;
}

double measure_matmul(int threads) {
  const cpu::ThreadScope scope(threads);
  const int64_t n = 2048;
  std::vector<float> a(static_cast<size_t>(n * n), 1.0F);
  std::vector<float> b(a.size(), 1.0F);
  std::vector<float> c(a.size());
  const double seconds = fastest(5, [&] {
    if (dnnl_sgemm('N', 'N', n, n, n, 1.0F, a.data(), n, b.data(), n, 0.0F, c.data(), n) != dnnl_success) {
      throw std::runtime_error("dnnl_sgemm of 2048 x 2048 matrices failed");
    }
  });
  const auto size = static_cast<double>(n);
  return 2 * size * size * size / seconds;
}

double once(std::map<int, double>& known, int threads, double (*measure)(int)) {
  const auto found = known.find(threads);
  return found != known.end() ? found->second : known[threads] = measure(threads);
}

}  // namespace

double memory_rate(int threads) {
  static std::map<int, double> known;
  return once(known, threads, measure_memory);
}

double matmul_rate(int threads) {
  static std::map<int, double> known;
  return once(known, threads, measure_matmul);
}

}  // namespace penstock::bench
