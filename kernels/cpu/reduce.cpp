#include "kernels/cpu/reduce.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/stream.h"
#include "kernels/math/check.h"
#include "kernels/math/with_element.h"

namespace penstock::cpu {
namespace {

using math::ArgumentCheck;

constexpr int64_t blocks_per_piece = 8;
constexpr int64_t nonfinite_grain = 32768;

/// Sum of squares of one block: element i goes to lane i mod 16, lanes are added in pairs. The bits depend on
/// the values and their indices in the block only.
double block_squares(const float* x, int64_t count) {
  constexpr int64_t lanes = 16;
  std::array<double, lanes> sum{};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int64_t j = 0; j < lanes; ++j) {
      const auto value = static_cast<double>(x[i + j]);
      sum[j] += value * value;
    }
  }
  for (int64_t j = 0; i + j < count; ++j) {
    const auto value = static_cast<double>(x[i + j]);
    sum[j] += value * value;
  }
  for (int64_t width = lanes / 2; width > 0; width /= 2) {
    for (int64_t j = 0; j < width; ++j) sum[j] += sum[j + width];
  }
  return sum[0];
}

/// Elements whose exponent bits are all set.
int64_t nonfinite(const float* x, int64_t count) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i)
    found += (std::bit_cast<uint32_t>(x[i]) & 0x7f800000U) == 0x7f800000U ? 1 : 0;
  return found;
}
int64_t nonfinite(const bfloat16* x, int64_t count) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) found += (x[i].bits & 0x7f80U) == 0x7f80U ? 1 : 0;
  return found;
}
int64_t nonfinite(const float16* x, int64_t count) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) found += (x[i].bits & 0x7c00U) == 0x7c00U ? 1 : 0;
  return found;
}

template <class T>
double ascending_sum(const T* values, int64_t count) {
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += static_cast<double>(values[i]);
  return total;
}

class CpuReduce final : public math::Reduce {
 public:
  void squares(Stream& stream, Tensor x, Tensor blocks) override {
    const int64_t count = x.elements();
    ArgumentCheck("squares")
        .present("x", x, {DType::fp32})
        .tensor("blocks", blocks, {math::norm_blocks(count)}, {DType::fp64});
    CpuStream::of(stream).enqueue("squares", [=] {
      parallel_ranges(math::norm_blocks(count), blocks_per_piece, [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) {
          const int64_t first = block * math::norm_block;
          blocks.as<double>()[block] =
              block_squares(x.as<const float>() + first, std::min(math::norm_block, count - first));
        }
      });
    });
  }

  void sum(Stream& stream, Tensor values, double* out) override {
    ArgumentCheck("sum")
        .present("values", values, {DType::fp32, DType::fp64})
        .that(out != nullptr, "out is absent");
    CpuStream::of(stream).enqueue("sum", [=] {
      *out = values.dtype == DType::fp64 ? ascending_sum(values.as<const double>(), values.elements())
                                         : ascending_sum(values.as<const float>(), values.elements());
    });
  }

  void global_norm(Stream& stream, Tensor sums, float clip_norm, math::StepScalars* scalars) override {
    ArgumentCheck("global_norm")
        .present("sums", sums, {DType::fp64})
        .that(scalars != nullptr, "scalars are absent");
    CpuStream::of(stream).enqueue("global_norm", [=] {
      const double unscale = 1.0 / static_cast<double>(scalars->loss_scale);
      const double norm = std::sqrt(ascending_sum(sums.as<const double>(), sums.elements())) * unscale;
      const double clip = clip_norm > 0 ? std::min(1.0, static_cast<double>(clip_norm) / (norm + 1e-6)) : 1.0;
      scalars->gradient_norm = norm;
      scalars->clip_factor = static_cast<float>(clip * unscale);
      scalars->apply = std::isfinite(norm) ? 1 : 0;
    });
  }

  void count_nonfinite(Stream& stream, Tensor x, int64_t* out) override {
    ArgumentCheck("count_nonfinite")
        .present("x", x, {DType::fp32, DType::bf16, DType::fp16})
        .that(out != nullptr, "out is absent");
    CpuStream::of(stream).enqueue("count_nonfinite", [=] {
      std::atomic<int64_t> found{0};
      math::with_element(x.dtype, [&]<class T>(T) {
        parallel_ranges(x.elements(), nonfinite_grain, [&](int64_t begin, int64_t end) {
          found += nonfinite(x.as<const T>() + begin, end - begin);
        });
      });
      *out += found;
    });
  }
};

}  // namespace

std::unique_ptr<math::Reduce> make_reduce(Device& /*device*/) {
  return std::make_unique<CpuReduce>();
}

}  // namespace penstock::cpu
