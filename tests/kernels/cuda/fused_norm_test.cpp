// Residual and norm in one kernel read the stored sum: the same bits as the two kernels (contract C1 e).
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/norm_kernels.h"
#include "kernels/cuda/pointwise_kernels.h"
#include "kernels/device/bfloat16.h"
#include "tests/kernels/cuda/kernel_memory.h"
#include "tests/kernels/math/random_sizes.h"

namespace penstock::testing {
namespace {

template <class T>
KernelVector<T> random_values(std::mt19937_64& random, int64_t count) {
  std::normal_distribution<float> normal;
  KernelVector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = T(normal(random));
  return values;
}

uint32_t bits(float x) {
  return std::bit_cast<uint32_t>(x);
}
uint16_t bits(bfloat16 x) {
  return x.bits;
}
template <class T>
void expect_same_bits(const KernelVector<T>& a, const KernelVector<T>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(bits(a[i]), bits(b[i])) << what << ", element " << i;
}

/// All that a norm writes, poisoned.
template <class T>
struct Outputs {
  Outputs(int64_t rows, int64_t channels)
      : sum(static_cast<size_t>(rows * channels), T(NAN)),
        y(static_cast<size_t>(rows * channels), T(NAN)),
        mean(static_cast<size_t>(rows), NAN),
        rstd(static_cast<size_t>(rows), NAN) {}
  KernelVector<T> sum;
  KernelVector<T> y;
  KernelVector<float> mean;
  KernelVector<float> rstd;
};

template <class T>
void check(bool layer_norm, int64_t rows, int64_t channels) {
  SCOPED_TRACE(::testing::Message() << rows << " x " << channels << (layer_norm ? " layer" : " RMS"));
  std::mt19937_64 random = random_shapes(10);
  const KernelVector<T> a = random_values<T>(random, rows * channels);
  const KernelVector<T> b = random_values<T>(random, rows * channels);
  const KernelVector<float> weight = random_values<float>(random, channels);
  const KernelVector<float> bias = random_values<float>(random, channels);
  Outputs<T> fused(rows, channels);
  Outputs<T> apart(rows, channels);
  const auto norm = [&](const T* x, const T* addend, Outputs<T>& out) {
    const cuda::NormForward<T> call{.x = x,
                                    .addend = addend,
                                    .sum = addend != nullptr ? out.sum.data() : nullptr,
                                    .weight = weight.data(),
                                    .bias = layer_norm ? bias.data() : nullptr,
                                    .y = out.y.data(),
                                    .mean = layer_norm ? out.mean.data() : nullptr,
                                    .rstd = out.rstd.data(),
                                    .rows = rows,
                                    .channels = channels,
                                    .epsilon = 1e-5F};
    layer_norm ? cuda::layer_norm_forward(nullptr, call) : cuda::rms_norm_forward(nullptr, call);
    kernel_memory::finish();
  };
  norm(a.data(), b.data(), fused);
  cuda::add(nullptr, a.data(), b.data(), apart.sum.data(), rows * channels);
  norm(apart.sum.data(), nullptr, apart);
  expect_same_bits(fused.sum, apart.sum, "sum");
  expect_same_bits(fused.y, apart.y, "y");
  expect_same_bits(fused.rstd, apart.rstd, "rstd");
  if (layer_norm) expect_same_bits(fused.mean, apart.mean, "mean");
}

TEST(FusedResidualNorm, HasTheBitsOfTheTwoKernels) {
  std::mt19937_64 random = random_shapes(11);
  for (const bool layer_norm : {false, true}) {
    for (const int64_t channels : {int64_t{1}, int64_t{512}, int64_t{513}, int64_t{1025}, int64_t{8200},
                                   random_size(random, 3000), random_size(random, 3000)}) {
      const int64_t rows = random_size(random, 9);
      check<float>(layer_norm, rows, channels);
      check<bfloat16>(layer_norm, rows, channels);
    }
  }
}

}  // namespace
}  // namespace penstock::testing
